// The work that grows with the number of ranks, done for real by rank 0 and by one other rank, with
// what all other ranks send or write made by the code that they would run: seconds and bytes.
//
// Arguments: FOLDER RANKS...
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <malloc.h>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/commit.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest_part.h"
#include "checkpoint/records.h"
#include "checkpoint/shard_names.h"
#include "checkpoint/shard_record.h"
#include "cuda/needs.h"
#include "data/token_index.h"
#include "engine/engine.h"
#include "meter/meter_backend.h"
#include "meter/meter_communicator.h"
#include "planner/shipped_plan.h"

namespace gptrain {
namespace {

namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void print_row(std::int64_t ranks, const char* what, double seconds, std::int64_t bytes) {
    std::printf("{\"ranks\":%lld,\"what\":\"%s\",\"seconds\":%.3e,\"bytes\":%lld}\n",
                static_cast<long long>(ranks), what, seconds, static_cast<long long>(bytes));
    std::fflush(stdout);
}

/// Bytes that this process has allocated and not freed.
std::int64_t held_bytes() {
    const struct mallinfo2 now = mallinfo2();
    return static_cast<std::int64_t>(now.uordblks + now.hblkhd);
}

/// The tensors of a rank's shard file, as its saver lays them out, with checksums of the right
/// number.
std::vector<TensorRecord> tensors_of(const RunPlan& plan, int rank, bool owned_only) {
    MeterBackend meter(cuda::backend_memory());
    const Mesh mesh(plan.mesh, place_of(rank, plan.mesh), mesh_connections(plan),
                    meter_communicators());
    const Engine engine(meter, mesh, plan);
    std::vector<TensorRecord> tensors;
    std::int64_t offset = 0;
    engine.visit([&](const NamedState& state) {
        const Shard& shard = state.shard;
        if (shard.elements() == 0 || (owned_only && !shard.owned)) return;
        ExtentRecord extent{
            shard.box, shard.flat_begin, shard.flat_end, shard_file_name(rank), offset, {}};
        extent.crc32c.resize(
            static_cast<std::size_t>(div_ceil(extent.bytes(), checkpoint_block_bytes)));
        offset += extent.bytes();
        tensors.push_back({std::string(state.group), shard.name, shard.global, {extent}});
    });
    return tensors;
}

/// What one rank's files are to the others.
struct RankFiles {
    std::string entries;  ///< the message of the first save
    std::string record;
    FileRecord shard;
    FileRecord record_file;
};

RankFiles files_of(const RunPlan& plan, int rank) {
    const std::vector<TensorRecord> tensors = tensors_of(plan, rank, true);
    std::int64_t bytes = 0;
    for (const TensorRecord& tensor : tensors)
        bytes += tensor.extents.front().bytes();
    RankFiles files;
    files.entries = to_message(index_of(tensors));
    files.record = record_text(tensors);
    files.shard = {shard_file_name(rank), bytes, 0};
    files.record_file = {record_file_name(rank), std::ssize(files.record),
                         crc32c(files.record.data(), files.record.size())};
    return files;
}

/// Rank 0's part of merging the entries of all ranks along a tree; the messages of its partners are
/// made by theirs.
std::string merge_on_first(std::int64_t ranks, const std::vector<RankFiles>& files) {
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
    print_row(ranks, "first save, rank 0: merges the ranks' tensors", seconds, bytes);
    return messages.front();
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

/// Writes an index of `documents` documents of 100 tokens, and a .bin of that size without data.
void write_index(const fs::path& prefix, std::int64_t documents) {
    constexpr std::int64_t tokens = 100;
    std::string idx("MMIDIDX\0\0", 9);
    const auto put = [&](auto value) {
        idx.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    put(std::uint64_t{1});
    put(std::uint8_t{8});
    put(documents);
    put(documents + 1);
    for (std::int64_t i = 0; i < documents; ++i)
        put(static_cast<std::int32_t>(tokens));
    for (std::int64_t i = 0; i < documents; ++i)
        put(i * tokens * 2);
    for (std::int64_t i = 0; i <= documents; ++i)
        put(i);
    File(prefix.string() + ".idx", File::Mode::create).write(idx);
    File(prefix.string() + ".bin", File::Mode::create).truncate(documents * tokens * 2);
}

void bench_data(const fs::path& prefix, std::int64_t ranks) {
    const TokenIndex index(prefix);
    index.check({0, ranks});  // brings it into the page cache
    const double seconds = seconds_of([&] { index.check({0, ranks}); });
    print_row(ranks, "start, every rank: checks its share of 10 M documents", seconds,
              std::ssize(index.idx().bytes()) / ranks);
}

/// GPT-3 175B, with as many data ranks as there are.
RunPlan plan_for(std::int64_t ranks) {
    RunSpec spec = test::shipped_spec("gpt175b");
    spec.parallel.tensor = 8;
    spec.parallel.pipeline = std::min<std::int64_t>(ranks / 8, 8);
    spec.parallel.virtual_stages = 1;
    spec.parallel.layers = {};
    spec.parallel.schedule = ScheduleKind::one_f_one_b;
    spec.training.global_batch_size = 1536;
    return make_plan(spec, {.world_size = ranks, .cuda = true, .dry_run = true});
}

void bench(const fs::path& folder, std::int64_t ranks) {
    const RunPlan plan = plan_for(ranks);
    std::vector<RankFiles> files;
    for (int rank = 0; rank < ranks; ++rank)
        files.push_back(files_of(plan, rank));

    const std::string merged_entries = merge_on_first(ranks, files);
    const std::int64_t before_entries = held_bytes();
    const std::vector<TensorEntry> entries = entries_from_message(merged_entries);
    print_row(ranks, "memory, rank 0: which ranks have which tensors", 0,
              held_bytes() - before_entries);

    // Each save: all ranks report their files, rank 0 writes the manifest and reads it back.
    std::vector<std::string> written;
    std::int64_t reported = 0;
    for (const RankFiles& one : files) {
        written.push_back(to_message(ShardRecords{{one.shard, one.record_file}, {}}));
        reported += std::ssize(written.back());
    }
    const fs::path checkpoint = folder / checkpoint_name(1);
    const TemporaryFolder temporary(folder, checkpoint_name(1));
    CheckpointMeta meta;
    meta.step = 1;
    const double commit = seconds_of([&] {
        commit_checkpoint(meta, temporary.path(), {merged(written).files, entries}, {}, checkpoint);
    });
    print_row(ranks, "save, rank 0: commits", commit, reported);

    // A resume: all ranks parse the manifest, and each reads the records of the boxes it needs.
    const std::string text = read_manifest_text(checkpoint);
    std::optional<CheckpointIndex> index;
    const std::int64_t before_index = held_bytes();
    const double parse = seconds_of(
        [&] { index = std::get<CheckpointIndex>(parse_any_manifest_of(checkpoint, text)); });
    print_row(ranks, "resume, every rank: parses the manifest", parse, std::ssize(text));
    print_row(ranks, "memory, every rank: the manifest at a resume", 0,
              held_bytes() - before_index);
    for (const RankFiles& one : files)
        File(checkpoint / one.record_file.name, File::Mode::create).write(one.record);
    const std::vector<TensorRecord> needs = tensors_of(plan, 0, false);
    Manifest part;
    const double read = seconds_of([&] { part = read_part(checkpoint, *index, needs); });
    std::int64_t read_bytes = 0;
    for (const std::int64_t shard : shards_of_boxes(*index, needs))
        read_bytes += files[static_cast<std::size_t>(shard)].record_file.bytes;
    print_row(ranks, "resume, rank 0: reads the records of its boxes", read, read_bytes);
    fs::remove_all(checkpoint);
}

int run(int argc, char** argv) {
    const fs::path folder = argv[1];
    write_index(folder / "text", 10'000'000);
    for (int i = 2; i < argc; ++i) {
        const std::int64_t ranks = parse_int(argv[i]).value();
        bench_data(folder / "text", ranks);
        bench(folder, ranks);
    }
    return 0;
}

}  // namespace
}  // namespace gptrain

int main(int argc, char** argv) {
    try {
        return gptrain::run(argc, argv);
    } catch (const gptrain::Error& error) {
        std::fprintf(stderr, "bench_scale: %s\n", error.what());
        return 1;
    }
}
