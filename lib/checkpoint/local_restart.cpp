#include "checkpoint/local_restart.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/checked.h"
#include "base/file.h"
#include "checkpoint/load.h"
#include "checkpoint/records.h"
#include "checkpoint/shard_record.h"

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

Holders all_holders(const LocalFolder& folder, const MpiSession& ranks, bool lists) {
    std::string lines;
    if (lists)
        for (const LocalCopy& copy : list_copies(folder, ranks.size()))
            lines += text(copy.save, ' ', copy.rank, '\n');
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

/// The newest save of which there is a copy of every rank; empty without one.
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

/// A part of a file under way.
struct PartHeader {
    std::int64_t file = 0;  ///< index in files_of
    std::int64_t offset = 0;
};

/// Reads files part by part. A fault ends it early: what is missing shows where it is needed.
class PartReader {
public:
    PartReader(std::filesystem::path folder, int rank)
        : folder_(std::move(folder)), names_(files_of(rank)) {}

    MpiSession::Message next() {
        try {
            while (at_.file < std::ssize(names_)) {
                const auto path = folder_ / names_[static_cast<std::size_t>(at_.file)];
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
        } catch (const Error&) {
            at_.file = std::ssize(names_);
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
        PartHeader at;
        GPTRAIN_CHECK(message.size() > sizeof at, message.size());
        std::memcpy(&at, message.data(), sizeof at);
        GPTRAIN_CHECK(at.file >= 0 && at.file < std::ssize(names_), at.file);
        if (!file_ || at.file != open_) {
            file_.emplace(folder_ / names_[static_cast<std::size_t>(at.file)], File::Mode::create);
            open_ = at.file;
        }
        file_->write_at(at.offset, message.subspan(sizeof at));
    }

private:
    std::filesystem::path folder_;
    std::array<std::string, 3> names_;
    std::int64_t open_ = 0;
    std::optional<File> file_;
};

}  // namespace

std::optional<LocalRestart> LocalRestart::find(const LocalFolder& folder, const MpiSession& ranks) {
    LocalRestart restart(folder, ranks);
    const std::vector<int> firsts = first_of_nodes(folder, ranks);
    const auto first_of = [&](int rank) { return firsts[static_cast<std::size_t>(rank)]; };
    const Holders holders = all_holders(folder, ranks, first_of(ranks.rank()) == ranks.rank());
    restart.save_ = newest_complete(holders, ranks.size());
    if (restart.save_.empty()) return std::nullopt;
    for (const auto& [rank, of_rank] : holders.at(restart.save_)) {
        const bool here = of_rank.count(first_of(rank)) > 0;
        restart.holders_.push_back(here ? rank : *of_rank.begin());
        if (!here) ++restart.moved_;
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

std::exception_ptr LocalRestart::fetch(int rank, int holder) const {
    PartReader reader(folder(), rank);
    PartWriter writer(folder(), rank);
    std::exception_ptr fault;
    const auto next = [&] { return reader.next(); };
    const auto take = [&](MpiSession::Message message) {
        if (fault) return;  // the messages must be received all the same
        try {
            writer.take(message);
        } catch (...) {
            fault = std::current_exception();
        }
    };
    const int own = ranks_->rank();
    ranks_->pass(next, own == holder ? rank : MpiSession::nobody, take,
                 own == rank ? holder : MpiSession::nobody);
    return fault;
}

void LocalRestart::load(Backend& backend, const StateSource& needed) const {
    ranks_->run_on_all([&] { create_folders(folder()); });
    std::exception_ptr fault;
    for (std::size_t rank = 0; rank < holders_.size(); ++rank) {
        if (std::cmp_equal(holders_[rank], rank)) continue;
        if (auto own = fetch(static_cast<int>(rank), holders_[rank])) fault = own;
    }
    ranks_->run_on_all([&] {
        if (fault) std::rethrow_exception(fault);
        const int rank = ranks_->rank();
        CheckpointIndex index = read_copy_manifest(folder(), rank);
        auto tensors = read_record(folder(), index.files[0], index.files[1]);
        load_state(folder(), {std::move(index.meta), std::move(index.files), std::move(tensors)},
                   backend, needed);
    });
}

}  // namespace gptrain
