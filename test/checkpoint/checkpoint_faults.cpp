#include <signal.h>
#include <sys/resource.h>

#include "catch.h"
#include "saving.h"

// For the leak sanitizer: if a write fails while HDF5 closes a file, the library leaks memory.
extern "C" const char* __lsan_default_suppressions() {
    return "leak:libhdf5";
}

namespace gptrain::test {
namespace {

/// Limits the size of files that this process may write during its lifetime. A write beyond the
/// limit fails as on a full disk (with EFBIG).
class FileSizeLimit {
public:
    explicit FileSizeLimit(std::int64_t bytes) {
        ::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &before_);
        rlimit limit = before_;
        limit.rlim_cur = static_cast<rlim_t>(bytes);
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;
    ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

private:
    rlimit before_{};
};

std::int64_t entries(const std::filesystem::path& folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
}

}  // namespace

TEST_CASE("a save that cannot be written leaves the earlier one and can be tried again") {
    const bool async = GENERATE(false, true);
    const ScratchFolder folder("full");
    SavingRun run({.folder = folder.path()}, async);
    run.save(1);
    run.saver.wait();
    const auto shard = static_cast<std::int64_t>(
        std::filesystem::file_size(folder.path() / "step-000001/shard-00000.h5"));
    for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{4096}, shard - 1}) {
        CAPTURE(async, limit);
        const FileSizeLimit full(limit);
        const std::string message = error_of(
            [&] {
                run.save(2);
                run.saver.wait();
            },
            ExitCode::io);
        CHECK(message.find("File too large") != std::string::npos);
        CHECK(message.find(folder.path().string()) != std::string::npos);
        CHECK(entries(folder.path()) == 1);
        CHECK(loads(folder.path() / "step-000001", {}, 1));
    }
    run.save(3);
    run.saver.wait();
    CHECK(loads(folder.path() / "step-000003", {}, 3));
}

TEST_CASE("a first save that cannot be written can be tried again") {
    const ScratchFolder folder("full-first");
    SavingRun run({.folder = folder.path()}, false);
    for (const std::int64_t limit : {0, 100, 5000}) {
        CAPTURE(limit);
        const FileSizeLimit full(limit);
        const std::string message = error_of(
            [&] {
                run.save(1);
                run.saver.wait();
            },
            ExitCode::io);
        CHECK(message.find("File too large") != std::string::npos);
        CHECK(entries(folder.path()) == 0);
    }
    run.save(1);
    CHECK(loads(folder.path() / "step-000001", {}, 1));
    CHECK(verify_checkpoint(folder.path() / "step-000001", VerifyDepth::full).meta.step == 1);
}

TEST_CASE("a run outlives failed saves, but not too many in a row") {
    const bool async = GENERATE(false, true);
    CAPTURE(async);
    const ScratchFolder folder("late");
    SavingRun run({.folder = folder.path()}, async);
    run.save(1);
    run.saver.finish_save();
    for (int row = 0; row < 2; ++row) {
        {
            const FileSizeLimit full(10);
            for (int failure = 1; failure < CheckpointSaver::max_failures; ++failure) {
                run.save(2);
                run.saver.finish_save();
                CHECK(entries(folder.path()) == 1 + row);
            }
            run.saver.poll();
        }
        run.save(3);
        run.saver.finish_save();
        CHECK(list_checkpoints(folder.path()).front().step == 3);
    }
    const FileSizeLimit full(10);
    for (int failure = 1; failure <= CheckpointSaver::max_failures; ++failure) {
        run.save(4);
        run.saver.finish_save();
    }
    CHECK(error_of([&] { run.saver.poll(); }, ExitCode::io).find("File too large") !=
          std::string::npos);
    run.saver.poll();
    CHECK(list_checkpoints(folder.path()).front().step == 3);
}

TEST_CASE("a save under way is committed by the calls that follow it") {
    const ScratchFolder folder("stages");
    SavingRun run({.folder = folder.path()});
    run.save(1);
    while (list_checkpoints(folder.path()).empty())
        run.saver.poll();
    run.save(2);
    run.save(3);
    CHECK(loads(folder.path() / "step-000002", {}, 2));
    run.saver.wait();
    CHECK(loads(folder.path() / "step-000003", {}, 3));
}

}  // namespace gptrain::test
