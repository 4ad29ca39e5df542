// Saves and loads by several ranks, each with its own files, threads and faults.
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>

#include "catch.h"
#include "checkpoint/restart_point.h"
#include "saving.h"
#include "support/common_folder.h"
#include "support/failing_calls.h"
#include "support/hdf5_fixture.h"
#include "support/temp_folder.h"

// For the leak sanitizer: if a write fails while HDF5 closes a file, the library leaks memory.
extern "C" const char* __lsan_default_suppressions() {
    return "leak:libhdf5";
}

namespace gptrain::test {
namespace {

namespace fs = std::filesystem;

const MpiSession& ranks() {
    return session();
}

TestMesh mesh_of_all() {
    const std::map<int, TestMesh> meshes = {{1, {1, 1}}, {2, {2, 1}}, {3, {1, 3}}, {4, {2, 2}}};
    return meshes.at(ranks().size());
}

/// This rank of a run on the mesh of all ranks.
struct RankRun {
    explicit RankRun(const fs::path& folder, bool async = true)
        : state(mesh_of_all(), ranks().rank()),
          arena(backend, MemorySpace::host, "snapshot", 1 << 20),
          saver(backend, arena, ranks(), {{.folder = folder, .keep_last = 2}, async}) {}

    void save(std::int64_t step) {
        state.fill(step);
        saver.save(meta_for(step), state.source());
    }

    HostBackend backend;
    RankState state;
    Arena arena;
    CheckpointSaver saver;
};

std::vector<fs::path> newest_first(const fs::path& folder) {
    std::vector<fs::path> paths;
    for (const auto& checkpoint : list_checkpoints(folder))
        paths.push_back(checkpoint.path);
    return paths;
}

/// The step that the ranks load together; 0 if the state is not the one after it.
std::int64_t loaded_step(const fs::path& folder, int* accepted = nullptr) {
    HostBackend backend;
    RankState state(mesh_of_all(), ranks().rank());
    auto point = RestartPoint::find(newest_first(folder), ranks());
    if (!point) return -1;
    point->load(backend, state.source(), [&] {
        if (accepted != nullptr) ++*accepted;
    });
    const bool right = state.holds(point->meta().step) &&
                       point->meta().identity == meta_for(point->meta().step).identity;
    return ranks().max(right ? 0 : 1) == 0 ? point->meta().step : 0;
}

/// The contents of a folder, as rank 0 sees it.
std::int64_t entries(const fs::path& folder) {
    return ranks().max(ranks().rank() == 0 ? std::distance(fs::directory_iterator(folder), {}) : 0);
}

/// True if model.h5 shows all of the state after that step.
bool shows(const fs::path& checkpoint, std::int64_t step) {
    for (const std::string group : {"weight", "exp_avg", "exp_avg_sq"}) {
        for (const TestTensor& tensor : small_tensors()) {
            const std::string name = text(group, "/", tensor.name);
            const auto values =
                read_dataset<float>((checkpoint / model_index_name).string(), "/" + name);
            if (std::ssize(values) != tensor.shape.elements()) return false;
            for (std::int64_t i = 0; i < std::ssize(values); ++i) {
                const float wanted = element(name_hash(name), i, step);
                if (std::memcmp(&values[static_cast<std::size_t>(i)], &wanted, sizeof wanted) != 0)
                    return false;
            }
        }
    }
    return true;
}

}  // namespace

TEST_CASE("Ranks save in the background, and all know when it is done") {
    const CommonFolder folder("background");
    RankRun run(folder.path());
    run.save(1);
    run.state.clear();
    while (ranks().max(std::ssize(newest_first(folder.path()))) == 0)
        run.saver.poll();
    run.saver.wait();
    CHECK(loaded_step(folder.path()) == 1);
    for (const std::int64_t step : {2, 3, 4})
        run.save(step);
    run.saver.wait();
    CHECK(entries(folder.path()) == 2);
    CHECK(loaded_step(folder.path()) == 4);
    ranks().run_on_first([&] {
        const fs::path newest = newest_first(folder.path()).front();
        verify_checkpoint(newest, VerifyDepth::full);
        CHECK(loads(newest, {1, 1}, 4));
        CHECK(loads(newest, {2, 3}, 4));
    });
}

TEST_CASE("A save that ranks wait for is complete when it returns, with model.h5") {
    const CommonFolder folder("waited");
    RankRun run(folder.path(), false);
    for (const std::int64_t step : {1, 2}) {
        run.save(step);
        run.state.clear();
        REQUIRE(std::ssize(newest_first(folder.path())) == step);
        CHECK(loaded_step(folder.path()) == step);
        ranks().run_on_first([&] {
            const fs::path newest = newest_first(folder.path()).front();
            verify_checkpoint(newest, VerifyDepth::full);
            CHECK(shows(newest, step));
        });
    }
}

TEST_CASE("A call that fails on any rank fails the save on all and leaves the older one") {
    const CommonFolder folder("faults");
    RankRun run(folder.path());
    run.save(1);
    run.saver.wait();
    std::int64_t calls = 0;
    {
        const FailingCalls count(folder.path(), 0, 0);
        run.save(2);
        run.saver.wait();
        calls = count.seen();
    }
    REQUIRE(calls > 10);
    std::int64_t last = 2;
    for (int rank = 0; rank < ranks().size(); ++rank) {
        const std::int64_t of_rank = ranks().max(ranks().rank() == rank ? calls : 0);
        for (std::int64_t n = 1; n <= of_rank; ++n) {
            CAPTURE(rank, n);
            std::int64_t failed = 0;
            {
                const FailingCalls fault(folder.path(), ranks().rank() == rank ? n : 0,
                                         n % 2 == 0 ? EIO : ENOSPC);
                run.save(last + 1);
                const std::string message = common_error([&] { run.saver.wait(); });
                failed = ranks().max(fault.happened() ? 1 : 0);
                // A failure to remove old checkpoints does not fail the save.
                if (message == "none") {
                    ++last;
                } else {
                    CHECK((contains(message, "No space left") ||
                           contains(message, "Input/output error")));
                    if (ranks().size() > 1) CHECK(contains(message, text("rank ", rank, ": ")));
                }
            }
            CHECK(failed == 1);
            const std::int64_t newest = list_checkpoints(folder.path()).front().step;
            // The rename succeeded, but making it durable failed: the checkpoint exists and is
            // complete.
            REQUIRE((newest == last || newest == last + 1));
            last = newest;
            REQUIRE(loaded_step(folder.path()) == last);
        }
    }
    run.save(last + 1);
    run.saver.wait();
    CHECK(loaded_step(folder.path()) == last + 1);
    ranks().run_on_first([&] { remove_leftovers(folder.path()); });
    CHECK(entries(folder.path()) == 2);
}

TEST_CASE("Calls that are interrupted or do half of it do no harm") {
    const CommonFolder folder("interrupted");
    RankRun run(folder.path(), false);
    run.save(1);
    for (const int error : {EINTR, 0}) {
        for (std::int64_t n = 1; n <= 40; n += 3 * ranks().size()) {
            CAPTURE(error, n);
            const FailingCalls fault(folder.path(), n, error);
            run.save(2);
            const std::string message = common_error([&] { run.saver.wait(); });
            // Neither of these may be interrupted.
            if (!contains(message, "rename") && !contains(message, "create the folder"))
                CHECK(message == "none");
        }
    }
    run.save(3);
    run.saver.wait();
    CHECK(loaded_step(folder.path()) == 3);
}

TEST_CASE("A first save that fails at any call can be tried again") {
    const CommonFolder folder("first");
    const int last_rank = ranks().size() - 1;
    const std::int64_t stride = ranks().size() == 1 ? 1 : 15;
    for (std::int64_t n = 1;; n += stride) {
        CAPTURE(n);
        RankRun run(folder.path(), n % 2 == 1);
        bool happened = false;
        {
            const FailingCalls fault(folder.path(), ranks().rank() == last_rank ? n : 0, ENOSPC);
            run.save(1);
            common_error([&] { run.saver.wait(); });
            happened = ranks().max(fault.happened() ? 1 : 0) == 1;
        }
        run.save(2);
        run.saver.wait();
        REQUIRE(loaded_step(folder.path()) == 2);
        ranks().run_on_first([&] {
            for (const auto& path : newest_first(folder.path()))
                fs::remove_all(path);
        });
        if (!happened) break;
    }
}

TEST_CASE("Too many failed saves in a row end all ranks") {
    const CommonFolder folder("many");
    RankRun run(folder.path());
    run.save(1);
    run.saver.wait();
    const int last_rank = ranks().size() - 1;
    for (int failure = 1; failure <= CheckpointSaver::max_failures; ++failure) {
        run.saver.poll();
        const FailingCalls fault(folder.path(), ranks().rank() == last_rank ? 3 : 0, ENOSPC);
        run.save(2);
        run.saver.finish_save();
        CHECK(entries(folder.path()) == 1);
    }
    CHECK(contains(common_error([&] { run.saver.poll(); }), "No space left"));
    CHECK(loaded_step(folder.path()) == 1);
}

TEST_CASE("Ranks go on from a checkpoint of version 1") {
    const CommonFolder folder("version-1");
    {
        RankRun run(folder.path());
        run.save(1);
        run.saver.wait();
    }
    ranks().run_on_first([&] { make_version_1(folder.path() / checkpoint_name(1)); });
    CHECK(loaded_step(folder.path()) == 1);
    RankRun run(folder.path());
    run.save(2);
    run.saver.wait();
    CHECK(loaded_step(folder.path()) == 2);
}

TEST_CASE("Damage that one rank meets makes all turn to the next older checkpoint") {
    const CommonFolder folder("damage");
    {
        RankRun run(folder.path());
        run.save(1);
        run.save(2);
        run.saver.wait();
    }
    const auto damage = [&](std::int64_t step) {
        ranks().run_on_first([&] {
            const fs::path checkpoint = folder.path() / checkpoint_name(step);
            const Manifest manifest = read_manifest(checkpoint);
            // Only the last rank needs it.
            const ExtentRecord& extent = manifest.find("exp_avg", "wte.weight")->extents.back();
            File file(checkpoint / extent.file, File::Mode::update);
            std::byte value{};
            file.read_at(extent.byte_offset + 9, {&value, 1});
            value ^= std::byte{4};
            file.write_at(extent.byte_offset + 9, {&value, 1});
        });
    };
    int accepted = 0;
    CHECK(loaded_step(folder.path(), &accepted) == 2);
    CHECK(accepted == 0);
    damage(2);
    CHECK(loaded_step(folder.path(), &accepted) == 1);
    CHECK(accepted == 1);
    damage(1);
    CHECK(contains(common_error([&] { loaded_step(folder.path()); }), "checkpoints are damaged"));

    // A checkpoint that was named is not replaced.
    const std::string message = common_error([&] {
        RankRun run(folder.path());
        RestartPoint::find({folder.path() / checkpoint_name(2)}, ranks())
            ->load(run.backend, run.state.source(), [] {});
    });
    CHECK(contains(message, "/exp_avg/wte.weight"));
    CHECK(contains(message, "is damaged in bytes ["));
    if (ranks().size() > 1) CHECK(contains(message, text("rank ", ranks().size() - 1, ": ")));
}

}  // namespace gptrain::test
