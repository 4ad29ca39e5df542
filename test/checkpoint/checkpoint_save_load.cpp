#include <cerrno>

#include "base/file_calls.h"
#include "base/temporary_file.h"
#include "catch.h"
#include "checkpoint/commit.h"
#include "checkpoint/restart_point.h"
#include "checkpoint/snapshot.h"
#include "saving.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

// Several blocks, several windows of the loader, and an incomplete last block.
const std::vector<TestTensor>& large_tensors() {
    static const std::vector<TestTensor> tensors = {{"wte.weight", {5003, 1021}, 0},
                                                    {"small", {3}, -1},
                                                    {"h.0.attn.proj.weight", {1024, 1500}, 1}};
    return tensors;
}

}  // namespace

TEST_CASE("what was saved is loaded bit for bit") {
    const bool async = GENERATE(false, true);
    const bool host_memory = GENERATE(false, true);
    const ScratchFolder folder("save-load");
    SavingRun run({.folder = folder.path()}, async, large_tensors());
    run.backend.host_memory = host_memory;
    run.save(7);
    run.state.clear();  // an asynchronous save must not notice
    run.saver.wait();

    const auto checkpoint = folder.path() / "step-000007";
    const Manifest manifest = verify_checkpoint(checkpoint, VerifyDepth::full);
    const CheckpointMeta& meta = manifest.meta;
    CHECK(meta.step == 7);
    CHECK(meta.data_position == 56);
    CHECK(meta.spec_hash == "a1b2c3");
    CHECK(meta.identity == meta_for(7).identity);
    CHECK(meta.state == meta_for(7).state);
    CHECK(manifest.parameters() == 5003 * 1021 + 3 + 1024 * 1500);
    CHECK(loads(checkpoint, {}, 7, large_tensors(), host_memory));
    CHECK(loads(checkpoint, {3, 2}, 7, large_tensors(), host_memory));
}

TEST_CASE("the time of a save is that of all its stages, and is recorded") {
    using Clock = std::chrono::steady_clock;
    const auto seconds_since = [](Clock::time_point start) {
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    const bool async = GENERATE(false, true);
    const ScratchFolder folder("save-time");
    SavingRun run({.folder = folder.path()}, async, large_tensors());
    const auto record = [](CheckpointMeta& meta, double seconds) { meta.state["time"] = seconds; };
    CheckpointSaver saver(
        run.backend, run.arena, run.alone,
        {.retention = {.folder = folder.path()}, .async = async, .record_time = record});
    CHECK(saver.longest_save() == 0);
    run.state.fill(3);
    const Clock::time_point start = Clock::now();
    saver.save(meta_for(3), run.state.source());
    saver.wait();
    const double all = seconds_since(start);
    const double longest = saver.longest_save();
    CHECK(longest <= all);
    CHECK(longest > all / 2);
    const auto checkpoint = folder.path() / "step-000003";
    const double recorded =
        verify_checkpoint(checkpoint, VerifyDepth::full).meta.state.at("time").get<double>();
    CHECK(recorded <= longest);
    CHECK(recorded > longest / 2);
}

TEST_CASE("a file without tensors comes back, and damage to it is found") {
    const ScratchFolder folder("whole-file");
    const std::string pieces = "the pieces";
    SavingRun run({.folder = folder.path()}, GENERATE(false, true), small_tensors(),
                  {{"tokenizer.model", pieces}});
    run.save(1);
    run.saver.wait();
    const auto checkpoint = folder.path() / "step-000001";
    const MpiSession alone;
    const auto read = [&](const std::string& name, std::int64_t limit = 100) {
        return RestartPoint::find({checkpoint}, alone)->whole_file(name, limit);
    };
    CHECK(read("tokenizer.model") == pieces);
    CHECK_FALSE(read("other.model"));
    CHECK(contains(error_of([&] { read("tokenizer.model", 9); }), "tokenizer.model: has 10 B"));

    std::optional<RestartPoint> point = RestartPoint::find({checkpoint}, alone);
    gptrain::test::fill(checkpoint / "tokenizer.model", "the pieceS");
    CHECK(contains(error_of([&] { point->whole_file("tokenizer.model", 100); }),
                   "tokenizer.model: is damaged"));
    for (const VerifyDepth depth : {VerifyDepth::structure, VerifyDepth::full}) {
        CHECK(contains(error_of([&] { verify_checkpoint(checkpoint, depth); }),
                       "tokenizer.model: is damaged"));
    }
}

TEST_CASE("synchronous and asynchronous saves write the same bytes") {
    const ScratchFolder folder("async");
    for (const bool async : {false, true}) {
        SavingRun run({.folder = folder.path() / (async ? "a" : "s")}, async);
        run.save(3);
    }
    for (const std::string name :
         {"shard-00000.h5", "record-00000.json", "model.h5", "manifest.json"}) {
        CAPTURE(name);
        CHECK(read_file(folder.path() / "a/step-000003" / name, 1 << 24) ==
              read_file(folder.path() / "s/step-000003" / name, 1 << 24));
    }
}

TEST_CASE("a file has the same bytes and checksums in whatever pieces its data come") {
    const ScratchFolder folder("pieces");
    RankState state({}, 0, large_tensors());
    state.fill(3);
    const std::vector<HeldState> owned = owned_state(state.source());
    const ShardLayout layout = plan_shard_file(folder.path(), 0, owned);
    const BlockSource whole = blocks_of(values_of(owned));
    const BlockSource pieces = [&](std::size_t index, std::int64_t offset, std::int64_t bytes) {
        return whole(index, offset, std::min(bytes, 2 * checkpoint_block_bytes));
    };
    std::vector<std::string> contents;
    std::vector<std::vector<std::uint32_t>> checksums;
    for (const BlockSource& blocks : {whole, pieces}) {
        const auto path = folder.path() / layout.file;
        std::filesystem::remove(path);
        const auto written =
            write_shard_file(create_reserved(path, layout.hdf5.bytes), layout, blocks);
        contents.push_back(read_file(path, std::int64_t{1} << 30));
        auto& all = checksums.emplace_back();
        for (const TensorRecord& tensor : written) {
            const auto& crc32c = tensor.extents.front().crc32c;
            all.insert(all.end(), crc32c.begin(), crc32c.end());
        }
    }
    CHECK((contents[0] == contents[1]));
    CHECK(checksums[0] == checksums[1]);
}

TEST_CASE("a rank finds that its file is not what it wrote") {
    const ScratchFolder folder("changed");
    RankState state({}, 0);
    state.fill(3);
    const std::vector<HeldState> owned = owned_state(state.source());
    const ShardLayout layout = plan_shard_file(folder.path(), 0, owned);
    const auto path = folder.path() / layout.file;
    const BlockSource blocks = [&, values = blocks_of(values_of(owned))](
                                   std::size_t index, std::int64_t offset, std::int64_t bytes) {
        // The structure has been written by now, and the disk changes a byte of it.
        const std::byte other = std::byte{0x5a};
        File(path, File::Mode::update).write_at(60, {&other, 1});
        return values(index, offset, bytes);
    };
    const std::string message =
        error_of([&] { write_shard(create_reserved(path, layout.hdf5.bytes), layout, blocks); },
                 ExitCode::io);
    CHECK(contains(message, "does not read back"));
    CHECK(contains(message, "shard-00000.h5: the HDF5 structure"));
}

TEST_CASE("a snapshot takes what was planned") {
    const ScratchFolder folder("snapshot");
    SavingRun run({.folder = folder.path()});
    HostBackend backend;
    Arena planned(backend, MemorySpace::host, "snapshot", 1 << 20);
    allocate_snapshot(planned, owned_state(run.state.source()));
    for (const std::int64_t step : {1, 2, 3})
        run.save(step);
    run.saver.wait();
    CHECK(run.arena.peak() == planned.peak());
}

TEST_CASE("tensors that do not fit the checkpoint are refused by name") {
    const ScratchFolder folder("mismatch");
    SavingRun run({.folder = folder.path()}, false);
    run.save(1);
    const auto load = [&](const TestTensor& tensor) {
        return error_of([&] { loads(folder.path() / "step-000001", {}, 1, {tensor}); });
    };
    CHECK(contains(load({"h.1.bias", {1}, -1}), "has no tensor weight/h.1.bias"));
    CHECK(contains(load({"wte.weight", {101, 25}, 0}),
                   "weight/wte.weight has shape [101, 24], but the model's has shape [101, 25]"));
}

TEST_CASE("retention keeps the last ones and the multiples") {
    const ScratchFolder folder("retention");
    SavingRun run({.folder = folder.path(), .keep_last = 2, .keep_every = 4}, false);
    for (std::int64_t step = 1; step <= 7; ++step)
        run.save(step);
    std::vector<std::int64_t> steps;
    for (const auto& checkpoint : list_checkpoints(folder.path()))
        steps.push_back(checkpoint.step);
    CHECK(steps == std::vector<std::int64_t>{7, 6, 4});

    SECTION("a damaged one does not count as kept") {
        std::filesystem::resize_file(folder.path() / "step-000007/shard-00000.h5", 100);
        std::filesystem::remove(folder.path() / "step-000006/manifest.json");
        SavingRun other({.folder = folder.path(), .keep_last = 2}, false);
        other.save(9);
        CHECK(std::filesystem::exists(folder.path() / "step-000004"));
    }
    SECTION("later steps of another course of the run stay and do not push out the new one") {
        SavingRun other({.folder = folder.path(), .keep_last = 2}, false);
        other.save(5);
        for (const std::string step : {"4", "5", "6", "7"})
            CHECK(std::filesystem::exists(folder.path() / ("step-00000" + step)));
    }
}

TEST_CASE("the checkpoint that a run has loaded is not verified again") {
    const ScratchFolder folder("loaded");
    {
        SavingRun run({.folder = folder.path(), .keep_last = 2}, false);
        run.save(1);
        run.save(2);
    }
    SavingRun run({.folder = folder.path(), .keep_last = 2}, false);
    run.saver.continue_from(2, folder.path() / "step-000002");
    // Were it verified, it would not count as kept.
    std::filesystem::resize_file(folder.path() / "step-000002/shard-00000.h5", 100);
    run.save(3);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "step-000001"));
}

TEST_CASE("nothing older goes for a checkpoint that does not read back") {
    const ScratchFolder folder("unreadable");
    const Retention retention = {.folder = folder.path(), .keep_last = 2};
    {
        SavingRun run(retention, false);
        run.save(1);
        run.save(2);
    }
    // The disk loses a file that was written.
    const TemporaryFolder temporary(folder.path(), checkpoint_name(3));
    const WholeFile lost = {"tokenizer.model", "lost"};
    const std::string message = error_of(
        [&] {
            commit_checkpoint(meta_for(3), temporary.path(), {}, {&lost, 1},
                              folder.path() / checkpoint_name(3));
        },
        ExitCode::io);
    CHECK(contains(message, "does not read back"));
    CHECK(loads(folder.path() / "step-000001", {}, 1));
    CHECK(loads(folder.path() / "step-000002", {}, 2));
}

TEST_CASE("saving a step again replaces its checkpoint") {
    const ScratchFolder folder("again");
    SavingRun run({.folder = folder.path()}, false);
    run.save(5);
    std::filesystem::resize_file(folder.path() / "step-000005/shard-00000.h5", 100);
    run.save(5);
    CHECK(loads(folder.path() / "step-000005", {}, 5));
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

namespace {

/// A file system that cannot exchange two names. Renames from number `first` to `last` (from 1)
/// fail.
class PlainRenames final : public CallInterceptor {
public:
    PlainRenames(int first, int last) : first_(first), last_(last) { intercept_calls(this); }
    PlainRenames(const PlainRenames&) = delete;
    PlainRenames& operator=(const PlainRenames&) = delete;
    ~PlainRenames() override { intercept_calls(nullptr); }
    CallFate intercept(std::string_view call, const std::filesystem::path& path) override {
        if (call == "renameat2") return {.error = EINVAL};
        // Not those with which a file of a checkpoint gets its contents.
        if (call != "rename" || path.filename().string().rfind("step-", 0) != 0) return {};
        ++seen_;
        return {.error = seen_ >= first_ && seen_ <= last_ ? EIO : 0};
    }

private:
    int first_;
    int last_;
    int seen_ = 0;
};

}  // namespace

TEST_CASE("a start that has lost its directory removes nothing there") {
    const ScratchFolder folder("lost");
    SavingRun run({.folder = folder.path()}, false);
    for (const std::int64_t step : {1, 2, 3})
        run.save(step);
    run.saver.wait();
    // Those of the start that has it now.
    const auto unfinished = folder.path() / "step-000009.tmp-1-2-other";
    std::filesystem::create_directory(unfinished);
    const auto lost = [] { fail(ExitCode::hang, "taken over"); };
    const auto there = [&] {
        return std::filesystem::exists(unfinished) &&
               std::filesystem::exists(folder.path() / checkpoint_name(1));
    };
    CHECK(error_of([&] { remove_leftovers(folder.path(), lost); }, ExitCode::hang) == "taken over");
    VerifiedCheckpoints verified;
    const auto remove_old = [&] {
        remove_old_checkpoints({.folder = folder.path(), .keep_last = 2}, 3, verified, lost);
    };
    CHECK(error_of(remove_old, ExitCode::hang) == "taken over");
    HostBackend backend;
    Arena arena(backend, MemorySpace::host, "snapshot", 1 << 20);
    const MpiSession alone;
    SaverOptions options = {.retention = {.folder = folder.path()}, .async = false};
    options.may_write = lost;
    CHECK(error_of([&] { CheckpointSaver saver(backend, arena, alone, options); },
                   ExitCode::hang) == "taken over");
    CHECK(there());
}

TEST_CASE("a step that cannot be saved again keeps its checkpoint") {
    const ScratchFolder folder("keeps");
    SavingRun run({.folder = folder.path()}, false);
    run.save(5);
    const auto checkpoint = folder.path() / "step-000005";
    write_file_durably(checkpoint / "mark", "the first one");
    for (const int first : {1, 2}) {
        for (const int last : {2, 100}) {
            CAPTURE(first, last);
            {
                const PlainRenames fault(first, last);
                run.save(5);
                CHECK(contains(error_of([&] { run.saver.wait(); }, ExitCode::io), "cannot rename"));
            }
            remove_leftovers(folder.path());
            CHECK(std::filesystem::exists(checkpoint / "mark"));
            CHECK(loads(checkpoint, {}, 5));
        }
    }
    // The disk loses a file of the new one.
    const WholeFile lost = {"tokenizer.model", "lost"};
    const auto replace = [&] {
        const TemporaryFolder temporary(folder.path(), checkpoint_name(5));
        commit_checkpoint(meta_for(5), temporary.path(), {}, {&lost, 1}, checkpoint);
    };
    CHECK(contains(error_of(replace, ExitCode::io), "does not read back"));
    CHECK(std::filesystem::exists(checkpoint / "mark"));
    CHECK(loads(checkpoint, {}, 5));
    const PlainRenames none(0, 0);
    run.save(5);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
    CHECK_FALSE(std::filesystem::exists(checkpoint / "mark"));
}

TEST_CASE("what dead runs left is removed at the start") {
    const ScratchFolder folder("leftover");
    std::filesystem::create_directories(folder.path() / "step-000009.tmp-77-1");
    write_file_durably(folder.path() / "step-000009.tmp-77-1/shard-00000.h5", "half");
    std::filesystem::create_directories(folder.path() / "mine.tmp-1");
    SavingRun run({.folder = folder.path()});
    CHECK(!std::filesystem::exists(folder.path() / "step-000009.tmp-77-1"));
    CHECK(std::filesystem::exists(folder.path() / "mine.tmp-1"));
}

TEST_CASE("only names of the exact form are checkpoints") {
    CHECK(checkpoint_name(500) == "step-000500");
    CHECK(checkpoint_name(1234567) == "step-1234567");
    CHECK(checkpoint_step("step-000500") == 500);
    CHECK(checkpoint_step("step-1234567") == 1234567);
    for (const std::string name : {"step-500", "step-0000500", "step--00500", "step-000500.tmp-1-2",
                                   "step-", "steps", "step-99999999999999999999", "step-00050x"}) {
        CAPTURE(name);
        CHECK(!checkpoint_step(name));
    }
    CHECK(list_checkpoints("no/such/folder").empty());
}

}  // namespace gptrain::test
