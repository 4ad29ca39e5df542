#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/file.h"
#include "checkpoint/commit.h"
#include "checkpoint/folder.h"
#include "checkpoint/hdf5_layout.h"
#include "checkpoint/manifest_part.h"
#include "checkpoint/records.h"
#include "checkpoint/saver.h"
#include "checkpoint/shard_names.h"
#include "checkpoint/shard_record.h"
#include "checkpoint/verify.h"
#include "cuda/needs.h"
#include "engine/engine.h"
#include "meter/meter_backend.h"
#include "meter/meter_communicator.h"
#include "scale_rows.h"
#include "timing.h"

namespace gptrain::bench {
namespace {

namespace fs = std::filesystem;

/// The state of a rank, without values.
StateSource state_of(const RunPlan& plan, int rank) {
    return [&plan, rank](const StateVisitor& visit) {
        MeterBackend meter(cuda::backend_memory());
        const Mesh mesh(plan.mesh, place_of(rank, plan.mesh), mesh_connections(plan),
                        meter_communicators());
        Engine(meter, mesh, plan).visit(visit);
    };
}

/// The tensors of a rank's shard file, back to back, without checksums.
std::vector<TensorRecord> tensors_of(const RunPlan& plan, int rank) {
    std::vector<TensorRecord> tensors;
    std::int64_t offset = 0;
    for (const auto& [group, shard, values] : owned_state(state_of(plan, rank))) {
        const ExtentRecord extent{
            shard.box, shard.flat_begin, shard.flat_end, shard_file_name(rank), offset, {}};
        offset += extent.bytes();
        tensors.push_back({group, shard.name, shard.global, {extent}});
    }
    return tensors;
}

/// A rank's files as the other ranks know them.
struct RankFiles {
    std::string entries;  ///< the message of the first save
    std::string record;
    FileRecord shard;
    FileRecord record_file;
};

RankFiles files_of(const FileRecord& shard, std::vector<TensorRecord> tensors) {
    for (TensorRecord& tensor : tensors) {
        ExtentRecord& extent = tensor.extents.front();
        extent.crc32c.resize(
            static_cast<std::size_t>(div_ceil(extent.bytes(), checkpoint_block_bytes)));
    }
    RankFiles files;
    files.entries = to_message(index_of(tensors));
    files.record = record_text(tensors);
    files.shard = shard;
    files.record_file = {record_file_name(shard_number(shard.name)), std::ssize(files.record),
                         crc32c(files.record.data(), files.record.size())};
    return files;
}

/// The files of a rank that writes none.
RankFiles stand_in_files(const RunPlan& plan, int rank) {
    const std::vector<TensorRecord> tensors = tensors_of(plan, rank);
    const ExtentRecord& last = tensors.back().extents.front();
    return files_of({shard_file_name(rank), last.byte_offset + last.bytes(), 0}, tensors);
}

/// A rank whose files are on disk, as a save leaves them. Only the data of its tensors is missing,
/// which nobody reads here.
struct WrittenRank {
    RankFiles files;
    std::int64_t verified_bytes = 0;  ///< of both files: all but the data
};

WrittenRank write_rank(const fs::path& folder, const RunPlan& plan, int rank) {
    const ShardLayout layout = plan_shard_file(folder, rank, owned_state(state_of(plan, rank)));
    WrittenRank written{files_of(file_record(layout), layout.tensors)};
    const RankFiles& files = written.files;
    written.verified_bytes = files.record_file.bytes;
    File file(folder / layout.file, File::Mode::create);
    file.truncate(layout.hdf5.bytes);
    for (const FilePiece& piece : layout.hdf5.metadata) {
        file.write_at(piece.offset, std::as_bytes(std::span(piece.bytes)));
        written.verified_bytes += std::ssize(piece.bytes);
    }
    File(folder / files.record_file.name, File::Mode::create).write(files.record);
    return written;
}

/// Rank 0's part of merging the entries of all ranks along a tree; the messages of its partners are
/// made by theirs.
std::string merge_on_first(const std::vector<RankFiles>& files) {
    std::vector<std::string> messages;
    for (const RankFiles& one : files)
        messages.push_back(one.entries);
    double seconds = 0;
    std::int64_t bytes = 0;
    for (std::size_t distance = 1; distance < messages.size(); distance *= 2) {
        for (std::size_t i = 0; i + distance < messages.size(); i += 2 * distance) {
            std::string& lower = messages[i];
            const double taken = seconds_of([&] {
                lower = to_message(merge_entries(entries_from_message(lower),
                                                 entries_from_message(messages[i + distance])));
            });
            if (i != 0) continue;
            seconds += taken;
            bytes += std::ssize(messages[distance]);
        }
    }
    print_row(std::ssize(files), "first save, rank 0: merges the ranks' tensors", seconds, bytes);
    return messages.front();
}

/// model.h5. With more parts than the saver allows it has the first ones only, and the result is
/// empty: such a checkpoint has no model.h5.
std::string make_view(const fs::path& folder, const RunPlan& plan) {
    const std::int64_t ranks = plan.mesh.size();
    const std::int64_t most = SaverOptions{}.max_viewed_parts;
    std::vector<std::string> messages;
    std::int64_t parts = 0;
    std::int64_t bytes = 0;
    for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<TensorRecord> tensors = tensors_of(plan, rank);
        parts += std::ssize(tensors);
        if (parts > most) break;
        messages.push_back(to_message(ShardRecords{{}, tensors}));
        bytes += std::ssize(messages.back());
    }
    std::vector<TensorRecord> viewed;
    const std::int64_t before = held_bytes();
    const double gather = seconds_of([&] { viewed = merged(messages).tensors; });
    print_row(ranks, "first save, rank 0: collects the parts that model.h5 shows", gather, bytes);
    print_row(ranks, "memory, rank 0: the parts that model.h5 shows", 0, held_bytes() - before);
    std::string view;
    const double make = seconds_of(
        [&] { view = virtual_index(folder / model_index_name, viewed, Json::object()); });
    print_row(ranks, "first save, rank 0: makes model.h5 in the background", make,
              std::ssize(view));
    return parts > most ? "" : view;
}

/// Each save: all ranks report their files, rank 0 writes the manifest and reads it back.
void commit_on_first(const fs::path& temporary, const fs::path& checkpoint,
                     const std::vector<RankFiles>& files, const std::vector<TensorEntry>& entries,
                     const std::string& view) {
    std::vector<std::string> written;
    std::int64_t reported = 0;
    for (const RankFiles& one : files) {
        written.push_back(to_message(ShardRecords{{one.shard, one.record_file}, {}}));
        reported += std::ssize(written.back());
    }
    std::vector<WholeFile> whole;
    if (!view.empty()) {
        File(temporary / model_index_name, File::Mode::create).write(view);
        whole.push_back({model_index_name, view});
    }
    CheckpointMeta meta;
    meta.step = 1;
    const double seconds = seconds_of([&] {
        commit_checkpoint(meta, temporary, {merged(written).files, entries}, whole, checkpoint);
    });
    print_row(std::ssize(files), "save, rank 0: commits", seconds, reported);
}

/// The shard files that hold parts of the boxes of `needs`.
std::set<std::int64_t> shards_of_boxes(const CheckpointIndex& index,
                                       const std::vector<TensorRecord>& needs) {
    const IndexLookup lookup(index);
    std::set<std::int64_t> shards;
    for (const TensorRecord& need : needs) {
        const Box& own = need.extents.front().box;
        for (const TensorBox& box : lookup.tensor(need.group, need.name)->boxes) {
            if (box.box.offset != own.offset || box.box.extent != own.extent) continue;
            for (const ShardRun& run : box.shards)
                for (std::int64_t i = 0; i < run.count; ++i)
                    shards.insert(run.first + i * run.step);
        }
    }
    return shards;
}

/// All ranks parse the manifest.
CheckpointIndex parse_on_every(const fs::path& checkpoint, std::int64_t ranks) {
    const std::string text = read_manifest_text(checkpoint);
    std::optional<CheckpointIndex> index;
    const std::int64_t before = held_bytes();
    const double parse = seconds_of(
        [&] { index = std::get<CheckpointIndex>(parse_any_manifest_of(checkpoint, text)); });
    print_row(ranks, "resume, every rank: parses the manifest", parse, std::ssize(text));
    print_row(ranks, "memory, every rank: the manifest at a resume", 0, held_bytes() - before);
    return std::move(*index);
}

/// Each rank reads the records of the boxes that it needs.
void read_on_first(const fs::path& checkpoint, const CheckpointIndex& index, const RunPlan& plan,
                   const std::vector<RankFiles>& files) {
    // The first and the last rank wrote theirs (write_rank).
    for (const RankFiles& one : std::span(files).subspan(1, files.size() - 2))
        File(checkpoint / one.record_file.name, File::Mode::create).write(one.record);
    const std::vector<TensorRecord> needs = needs_of(state_of(plan, 0));
    Manifest part;
    const double read = seconds_of([&] { part = read_part(checkpoint, index, needs); });
    std::int64_t bytes = 0;
    for (const std::int64_t shard : shards_of_boxes(index, needs))
        bytes += files[static_cast<std::size_t>(shard)].record_file.bytes;
    print_row(plan.mesh.size(), "resume, rank 0: reads the records of its boxes", read, bytes);
}

/// The checkpoint and its writers.
struct Checkpoint {
    fs::path temporary;
    fs::path path;
    const RunPlan& plan;
    WrittenRank first;
    WrittenRank last;
    std::vector<RankFiles> files;  ///< of all ranks
};

void bench_save(const Checkpoint& checkpoint) {
    const std::int64_t ranks = checkpoint.plan.mesh.size();
    const std::string merged_entries = merge_on_first(checkpoint.files);
    const std::int64_t before = held_bytes();
    const std::vector<TensorEntry> entries = entries_from_message(merged_entries);
    print_row(ranks, "memory, rank 0: which ranks have which tensors", 0, held_bytes() - before);
    const std::string view = make_view(checkpoint.temporary, checkpoint.plan);

    const RankFiles& own = checkpoint.first.files;
    const double read_back =
        least_seconds_of([&] { verify_shard(checkpoint.temporary, own.shard, own.record_file); });
    print_row(ranks, "save, every rank: reads back its files", read_back,
              checkpoint.first.verified_bytes);
    commit_on_first(checkpoint.temporary, checkpoint.path, checkpoint.files, entries, view);
}

/// Each rank verifies its share of the files.
void verify_shares(const Checkpoint& checkpoint, const CheckpointIndex& index) {
    const auto ranks = narrow<int>(checkpoint.plan.mesh.size());
    const auto seconds_of_share = [&](int rank) {
        return least_seconds_of([&] { verify_part(checkpoint.path, index, rank, ranks); });
    };
    std::int64_t on_first = checkpoint.first.verified_bytes;
    for (const FileRecord& file : index.files)
        if (file.name == model_index_name) on_first += file.bytes;
    print_row(ranks, "resume, rank 0: verifies its share of the files", seconds_of_share(0),
              on_first);
    print_row(ranks, "resume, the last rank: verifies its share of the files",
              seconds_of_share(ranks - 1), checkpoint.last.verified_bytes);
}

void bench_resume(const Checkpoint& checkpoint) {
    const CheckpointIndex index = parse_on_every(checkpoint.path, checkpoint.plan.mesh.size());
    verify_shares(checkpoint, index);
    read_on_first(checkpoint.path, index, checkpoint.plan, checkpoint.files);
}

}  // namespace

void bench_checkpoint(const fs::path& folder, const RunPlan& plan) {
    const auto ranks = narrow<int>(plan.mesh.size());
    const TemporaryFolder temporary(folder, checkpoint_name(1));
    Checkpoint checkpoint{temporary.path(),
                          folder / checkpoint_name(1),
                          plan,
                          write_rank(temporary.path(), plan, 0),
                          write_rank(temporary.path(), plan, ranks - 1),
                          {}};
    checkpoint.files.push_back(checkpoint.first.files);
    for (int rank = 1; rank < ranks - 1; ++rank)
        checkpoint.files.push_back(stand_in_files(plan, rank));
    checkpoint.files.push_back(checkpoint.last.files);
    in_child([&] { bench_save(checkpoint); });
    in_child([&] { bench_resume(checkpoint); });
    fs::remove_all(checkpoint.path);
}

}  // namespace gptrain::bench
