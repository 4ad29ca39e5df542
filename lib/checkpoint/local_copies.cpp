#include "checkpoint/local_copies.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>

#include "base/at.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/temporary_file.h"
#include "checkpoint/folder.h"
#include "checkpoint/records.h"
#include "checkpoint/shard_record.h"
#include "checkpoint/snapshot.h"

namespace gptrain {
namespace {

/// Lays out a copy: the states back to back.
ShardLayout plan_copy(int rank, std::span<const HeldState> held) {
    ShardLayout layout;
    layout.file = copy_file_name(rank);
    for (const HeldState& state : held) {
        ExtentRecord extent{state.shard.box, state.shard.flat_begin, state.shard.flat_end,
                            layout.file,     layout.hdf5.bytes,      {}};
        layout.hdf5.bytes += extent.bytes();
        layout.tensors.push_back({state.group, state.shard.name, state.shard.global, {extent}});
    }
    return layout;
}

/// A part of a copy in transit: where it belongs in the file, and its bytes.
class CopyParts {
public:
    CopyParts(const ShardLayout& layout, BlockSource blocks)
        : layout_(layout), blocks_(std::move(blocks)) {}

    /// The next part as a message; empty after the last.
    MpiSession::Message next() {
        while (tensor_ < layout_.tensors.size() && at_ == extent().bytes()) {
            ++tensor_;
            at_ = 0;
        }
        if (tensor_ == layout_.tensors.size()) return {};
        const auto block = blocks_(tensor_, at_, extent().bytes() - at_);
        const auto part = block.first(
            static_cast<std::size_t>(std::min(std::ssize(block), checkpoint_block_bytes)));
        const std::int64_t offset = extent().byte_offset + at_;
        message_.resize(sizeof offset + part.size());
        std::memcpy(message_.data(), &offset, sizeof offset);
        std::memcpy(message_.data() + sizeof offset, part.data(), part.size());
        at_ += std::ssize(part);
        return message_;
    }

private:
    const ExtentRecord& extent() const { return layout_.tensors[tensor_].extents.front(); }

    const ShardLayout& layout_;
    BlockSource blocks_;
    std::size_t tensor_ = 0;
    std::int64_t at_ = 0;
    std::vector<std::byte> message_;
};

void write_part(File& file, MpiSession::Message message) {
    GPTRAIN_CHECK(message.size() > sizeof(std::int64_t), message.size());
    const auto offset = value_at<std::int64_t>(message, 0);
    const auto part = message.subspan(sizeof offset);
    file.write_at(offset, part);
    file.begin_sync(offset, std::ssize(part));
}

}  // namespace

std::vector<int> copy_receivers(const std::vector<int>& nodes) {
    std::vector<int> by_node(nodes.size());
    std::iota(by_node.begin(), by_node.end(), 0);
    std::stable_sort(by_node.begin(), by_node.end(),
                     [&](int a, int b) { return at(nodes, a) < at(nodes, b); });
    std::map<int, std::size_t> sizes;
    std::size_t largest = 0;
    for (const int node : nodes)
        largest = std::max(largest, ++sizes[node]);
    std::vector<int> receivers(nodes.size(), MpiSession::nobody);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto rank = static_cast<std::size_t>(by_node[i]);
        const int receiver = by_node[(i + largest) % nodes.size()];
        if (at(nodes, receiver) != nodes[rank]) receivers[rank] = receiver;
    }
    return receivers;
}

LocalCopies::LocalCopies(Backend& backend, Arena& snapshot, const MpiSession& ranks,
                         LocalFolder folder, const StateSource& source,
                         std::function<void()> may_write)
    : backend_(backend),
      snapshot_arena_(snapshot),
      ranks_(ranks),
      folder_(std::move(folder)),
      may_write_(std::move(may_write)) {
    for (const std::string& node : ranks_.exchange(text(folder_.node)))
        nodes_.push_back(narrow<int>(*parse_int(node)));
    const std::vector<int> receivers = copy_receivers(nodes_);
    to_ = at(receivers, ranks_.rank());
    const auto sender = std::find(receivers.begin(), receivers.end(), ranks_.rank());
    from_ = sender == receivers.end() ? MpiSession::nobody
                                      : static_cast<int>(sender - receivers.begin());
    layout_ = plan_copy(ranks_.rank(), held_state(source));
    const auto sizes = ranks_.exchange(text(layout_.hdf5.bytes));
    if (from_ != MpiSession::nobody) passed_bytes_ = *parse_int(at(sizes, from_));
    const auto unprotected = std::count(receivers.begin(), receivers.end(), MpiSession::nobody);
    if (unprotected == 0) return;
    print(key_of(folder_.tier), ": no other node keeps a copy of ", unprotected, " of ",
          ranks_.size(), " ranks; if their node is lost, the run goes back to its last checkpoint");
}

bool LocalCopies::first_of_node() const {
    const auto first = std::find(nodes_.begin(), nodes_.end(), folder_.node);
    return first - nodes_.begin() == ranks_.rank();
}

void LocalCopies::require_may_write() const {
    ranks_.run_on_first([&] {
        if (may_write_) may_write_();
    });
}

void LocalCopies::save(const CheckpointMeta& meta, const StateSource& source) {
    finish();
    try {
        begin(meta, source);
    } catch (const CommonError& failure) {
        abandon(failure);
    }
}

void LocalCopies::begin(const CheckpointMeta& meta, const StateSource& source) {
    const std::vector<HeldState> held = held_state(source);
    GPTRAIN_CHECK(held.size() == layout_.tensors.size(), "the state has changed its shards");
    // That of rank 0: what ranks count for themselves, such as seconds, may differ.
    save_.emplace();
    save_->meta = meta_from_message(ranks_.broadcast(to_message(meta)));
    save_->name = local_save_name(meta.step, course_.id);
    std::optional<File> own;
    ranks_.run_on_all([&] {
        create_folders(save_folder());
        own.emplace(create_reserved(save_folder() / layout_.file, layout_.hdf5.bytes));
        if (from_ == MpiSession::nobody) return;
        save_->passed.emplace(
            create_reserved(save_folder() / copy_file_name(from_), passed_bytes_));
    });
    if (snapshot_.empty()) snapshot_ = allocate_snapshot(snapshot_arena_, held);
    take_snapshot(backend_, snapshot_, held);
    save_->own = std::async(std::launch::async, [this, file = std::move(*own)]() mutable {
        return record_text(write_shard_file(std::move(file), layout_, blocks_of(snapshot_)));
    });
    pass_copies();
}

void LocalCopies::pass_copies() {
    CopyParts parts(layout_, blocks_of(snapshot_));
    ranks_.run_on_all([&] {
        ranks_.pass([&] { return parts.next(); }, to_,
                    [&](MpiSession::Message part) { write_part(*save_->passed, part); }, from_);
    });
    if (!save_->passed) return;
    save_->passed_sync = std::async(std::launch::async, [file = &*save_->passed] {
        file->sync();
        file->close();
    });
}

void LocalCopies::poll() {
    if (!save_) return;
    const auto busy = [](const auto& work) {
        return work.valid() &&
               work.wait_for(std::chrono::seconds::zero()) != std::future_status::ready;
    };
    if (ranks_.max(busy(save_->own) || busy(save_->passed_sync) ? 1 : 0) == 0) finish();
}

void LocalCopies::finish() {
    if (!save_) return;
    try {
        complete();
        save_.reset();
    } catch (const CommonError& failure) {
        abandon(failure);
    }
}

void LocalCopies::begin_course(LocalCourse course, std::int64_t step) {
    finish();
    course_ = std::move(course);
    const std::int64_t newest =
        ranks_.max(first_of_node() ? newest_save_of_other_meshes(folder_) : 0);
    if (newest > step && ranks_.rank() == 0) {
        warn("the ", name_of(folder_.tier), " of step ", newest,
             ", which are of another mesh than ", folder_.mesh, ", are removed");
    }
    ranks_.run_on_all([&] {
        if (!first_of_node()) return;
        std::vector<std::string> kept = course_.older;
        kept.push_back(course_.from);
        remove_other_saves(folder_, kept);
    });
}

void LocalCopies::remove_all() {
    finish();
    require_may_write();
    ranks_.run_on_all([&] {
        if (!first_of_node()) return;
        remove_other_saves(folder_, {});
        std::error_code not_empty;
        std::filesystem::remove(folder_.run, not_empty);
    });
}

void LocalCopies::complete() {
    std::string own;
    ranks_.run_on_all([&] {
        own = save_->own.get();
        if (save_->passed_sync.valid()) save_->passed_sync.get();
    });
    require_may_write();
    std::string passed;
    bool sent = false;
    const auto next = [&] {
        return std::exchange(sent, true) ? MpiSession::Message() : std::as_bytes(std::span(own));
    };
    const auto take = [&](MpiSession::Message message) {
        passed.assign(reinterpret_cast<const char*>(message.data()), message.size());
    };
    ranks_.run_on_all([&] {
        ranks_.pass(next, to_, take, from_);
        write_manifest(ranks_.rank(), own, layout_.hdf5.bytes);
        if (from_ != MpiSession::nobody) write_manifest(from_, passed, passed_bytes_);
        sync_folder(save_folder());
    });
    ranks_.run_on_all([&] {
        if (first_of_node()) remove_other_saves(folder_, {save_->name});
    });
}

void LocalCopies::write_manifest(int rank, const std::string& record, std::int64_t bytes) const {
    const std::filesystem::path folder = save_folder();
    write_whole(create_reserved(folder / copy_record_name(rank), std::ssize(record)), record);
    const CheckpointIndex index = {.meta = save_->meta,
                                   .files = {{copy_file_name(rank), bytes, 0},
                                             {copy_record_name(rank), std::ssize(record),
                                              crc32c(record.data(), record.size())}},
                                   .tensors = {}};
    write_file_durably(folder / copy_manifest_name(rank), to_text(index));
}

void LocalCopies::abandon(const CommonError& failure) {
    const std::filesystem::path unfinished = save_folder();
    save_.reset();  // waits for its threads
    if (failure.code() != ExitCode::io) throw failure;
    if (first_of_node()) remove_or_warn(unfinished);
    if (ranks_.rank() != 0) return;
    warn(failure.what(), "; training continues without ",
         folder_.tier == CopyTier::disk ? "this local copy" : "this copy in memory");
}

}  // namespace gptrain
