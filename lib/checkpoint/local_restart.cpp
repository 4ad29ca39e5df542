#include "checkpoint/local_restart.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "base/at.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/load.h"
#include "checkpoint/records.h"
#include "checkpoint/shard_record.h"
#include "checkpoint/verify.h"

namespace gptrain {
namespace {

/// The lowest rank of each rank's node.
std::vector<int> first_of_nodes(const LocalFolder& folder, const MpiSession& ranks) {
    std::map<std::string, int> first;
    std::vector<int> firsts;
    for (const std::string& node : ranks.exchange(text(folder.node)))
        firsts.push_back(first.emplace(node, static_cast<int>(firsts.size())).first->second);
    return firsts;
}

/// For each save, for each rank: the lowest ranks of the nodes that have its copy.
using Holders = std::map<std::string, std::map<int, std::set<int>>>;

Holders all_holders(const LocalFolder& folder, const LocalCourse& course, const MpiSession& ranks,
                    bool lists) {
    std::string lines;
    if (lists)
        for (const LocalCopy& copy : list_copies(folder, ranks.size()))
            if (course.includes(copy.save)) lines += text(copy.save, ' ', copy.rank, '\n');
    const std::vector<std::string> all = ranks.exchange(lines);
    Holders holders;
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::istringstream words(all[i]);
        std::string save;
        std::string rank;
        while (words >> save >> rank)
            holders[save][narrow<int>(*parse_int(rank))].insert(static_cast<int>(i));
    }
    return holders;
}

/// The newest save that has a copy of every rank; empty if there is none.
std::string newest_complete(const Holders& holders, int ranks) {
    std::pair<std::int64_t, std::string> newest = {-1, ""};
    for (const auto& [save, of_ranks] : holders) {
        if (std::cmp_equal(of_ranks.size(), ranks))
            newest = std::max(newest, std::pair(*local_save_step(save), save));
    }
    return newest.second;
}

/// The files of a rank's copy, the manifest last.
std::array<std::string, 3> files_of(int rank) {
    return {copy_file_name(rank), copy_record_name(rank), copy_manifest_name(rank)};
}

/// A part of a file in transit.
struct PartHeader {
    std::int64_t file = 0;  ///< index in files_of
    std::int64_t offset = 0;
};

/// Reads the files of a rank's copy part by part.
class PartReader {
public:
    PartReader(std::filesystem::path folder, int rank)
        : folder_(std::move(folder)), names_(files_of(rank)) {}

    MpiSession::Message next() {
        while (at_.file < std::ssize(names_)) {
            const auto path = folder_ / at(names_, at_.file);
            if (!file_) file_.emplace(path, File::Mode::read);
            message_.resize(sizeof at_ + static_cast<std::size_t>(checkpoint_block_bytes));
            std::memcpy(message_.data(), &at_, sizeof at_);
            const std::size_t bytes = file_->read(std::span(message_).subspan(sizeof at_));
            if (bytes > 0) {
                at_.offset += static_cast<std::int64_t>(bytes);
                message_.resize(sizeof at_ + bytes);
                return message_;
            }
            file_.reset();
            at_ = {at_.file + 1, 0};
        }
        return {};
    }

private:
    std::filesystem::path folder_;
    std::array<std::string, 3> names_;
    PartHeader at_;
    std::optional<File> file_;
    std::vector<std::byte> message_;
};

/// Writes what a PartReader reads.
class PartWriter {
public:
    PartWriter(std::filesystem::path folder, int rank)
        : folder_(std::move(folder)), names_(files_of(rank)) {}

    void take(MpiSession::Message message) {
        GPTRAIN_CHECK(message.size() > sizeof(PartHeader), message.size());
        const auto at = value_at<PartHeader>(message, 0);
        GPTRAIN_CHECK(at.file >= 0 && at.file < std::ssize(names_), at.file);
        if (!file_ || at.file != open_) {
            const auto path = folder_ / names_[static_cast<std::size_t>(at.file)];
            std::error_code missing;  // a start that was killed may have left a part of it
            std::filesystem::remove(path, missing);
            file_.emplace(path, File::Mode::create);
            open_ = at.file;
        }
        file_->write_at(at.offset, message.subspan(sizeof(PartHeader)));
    }

private:
    std::filesystem::path folder_;
    std::array<std::string, 3> names_;
    std::int64_t open_ = 0;
    std::optional<File> file_;
};

}  // namespace

std::optional<LocalRestart> LocalRestart::find(const LocalFolder& folder, const LocalCourse& course,
                                               const MpiSession& ranks) {
    LocalRestart restart(folder, ranks);
    const std::vector<int> firsts = first_of_nodes(folder, ranks);
    const auto first_of = [&](int rank) { return at(firsts, rank); };
    const Holders holders =
        all_holders(folder, course, ranks, first_of(ranks.rank()) == ranks.rank());
    restart.save_ = newest_complete(holders, ranks.size());
    if (restart.save_.empty()) return std::nullopt;
    for (const auto& [rank, of_rank] : holders.at(restart.save_)) {
        std::vector<int>& readers = restart.readers_.emplace_back();
        for (const int holder : of_rank) {
            if (holder == first_of(rank))
                readers.insert(readers.begin(), rank);
            else
                readers.push_back(holder);
        }
        if (readers.front() != rank) ++restart.moved_;
    }
    const int reader = *holders.at(restart.save_).at(0).begin();
    std::string meta;
    ranks.run_on_all([&] {
        if (ranks.rank() == reader) meta = to_message(read_copy_manifest(restart.folder(), 0).meta);
    });
    for (const std::string& of_rank : ranks.exchange(meta))
        if (!of_rank.empty()) restart.meta_ = meta_from_message(of_rank);
    return restart;
}

void LocalRestart::fetch(int rank, int reader) const {
    if (reader == rank) return;
    PartReader from(folder(), rank);
    PartWriter to(folder(), rank);
    const int own = ranks_->rank();
    ranks_->pass([&] { return from.next(); }, own == reader ? rank : MpiSession::nobody,
                 [&](MpiSession::Message part) { to.take(part); },
                 own == rank ? reader : MpiSession::nobody);
}

void LocalRestart::fetch_all(const std::vector<int>& waiting, std::size_t attempt) const {
    ranks_->run_on_all([&] {
        std::exception_ptr fault;
        for (const int rank : waiting) {
            try {
                fetch(rank, at(readers_, rank)[attempt]);
            } catch (...) {
                fault = std::current_exception();  // the other ranks need this one all the same
            }
        }
        if (fault) std::rethrow_exception(fault);
    });
}

void LocalRestart::load(Backend& backend, const StateSource& needed) const {
    ranks_->run_on_all([&] { create_folders(folder()); });
    std::vector<int> waiting(readers_.size());
    std::iota(waiting.begin(), waiting.end(), 0);
    for (std::size_t attempt = 0; !waiting.empty(); ++attempt) {
        fetch_all(waiting, attempt);
        std::string damage;
        ranks_->run_on_all([&] {
            if (!std::binary_search(waiting.begin(), waiting.end(), ranks_->rank())) return;
            try {
                load_copy(backend, needed);
            } catch (const Error& fault) {
                const auto& readers = at(readers_, ranks_->rank());
                if (!is_unusable(fault) || attempt + 1 == readers.size()) throw;
                damage = fault.what();
                warn(damage, "; taking the copy of another node");
            }
        });
        const std::vector<std::string> all = ranks_->exchange(damage);
        std::erase_if(waiting, [&](int rank) { return at(all, rank).empty(); });
    }
}

void LocalRestart::load_copy(Backend& backend, const StateSource& needed) const {
    CheckpointIndex index = read_copy_manifest(folder(), ranks_->rank());
    auto tensors = read_record(folder(), index.files[0], index.files[1]);
    load_state(folder(), {std::move(index.meta), std::move(index.files), std::move(tensors)},
               backend, needed);
}

}  // namespace gptrain
