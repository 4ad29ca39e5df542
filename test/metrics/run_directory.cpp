#include "metrics/run_directory.h"

#include <cstdlib>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "base/text.h"
#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::contains;
using test::contents;
using test::TempFolder;

TEST_CASE("an output directory is created with the folders above it and takes its spec") {
    const TempFolder folder;
    const RunDirectory run(folder / "runs/a");
    run.write_spec("name: a\n");
    run.write_spec("name: b\n");
    CHECK(contents(folder / "runs/a/spec.yaml") == "name: b\n");
    CHECK(run.paths().checkpoints() == folder / "runs/a/checkpoints");
}

TEST_CASE("a second run in one directory is refused and told who is there, by any name") {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "real");
    std::filesystem::create_directory_symlink(folder / "real", folder / "link");
    const RunDirectory run(folder / "real");
    for (const char* name : {"real", "link"}) {
        const std::string message =
            test::message_of(ExitCode::usage, [&] { RunDirectory second(folder / name); });
        CHECK(contains(message, text("process ", static_cast<std::int64_t>(::getpid()), " on ")));
        CHECK(contains(message, (folder / name).string()));
    }
}

TEST_CASE("the lock goes with the run") {
    const TempFolder folder;
    { const RunDirectory run(folder / "a"); }
    CHECK_NOTHROW(RunDirectory(folder / "a"));

    // A killed process leaves no lock behind.
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const RunDirectory run(folder / "b");
        ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    CHECK_NOTHROW(RunDirectory(folder / "b"));
}

TEST_CASE("a start whose lock another one has taken may not write") {
    const TempFolder folder;
    REQUIRE(::setenv("GPTRAIN_START", "7.0.1", 1) == 0);
    const RunDirectory run(folder / "a");
    ::unsetenv("GPTRAIN_START");
    CHECK(contents(folder / "a/.lock") == text("process ", static_cast<std::int64_t>(::getpid()),
                                               " on ", host_name(), ", start 7.0.1"));
    CHECK_NOTHROW(run.require_own());
    // As a network file system lets the next start do it.
    for (const char* taken : {"process 1 on n3, start 7.0.2", ""}) {
        std::ofstream(folder / "a/.lock") << taken;
        const std::string message = test::message_of(ExitCode::hang, [&] { run.require_own(); });
        CHECK(contains(message, *taken == '\0' ? "another process" : taken));
    }
    std::filesystem::remove(folder / "a/.lock");
    CHECK_NOTHROW(run.require_own());
    std::ofstream(folder / "a/.lock") << "process 1 on n3";
    CHECK_NOTHROW(run.require_own());
}

TEST_CASE("a start leaves the lock to a later one of its job") {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "a");
    const auto start = [&](const char* number) {
        REQUIRE(::setenv("GPTRAIN_START", number, 1) == 0);
        RunDirectory run(folder / "a");
    };
    const auto refused = [&](const char* number) {
        const std::string message = test::message_of(ExitCode::hang, [&] { start(number); });
        CHECK(contains(message, "process 1 on n3, start 7_3.1.2, a later start of the job"));
    };
    for (const char* older : {"7_3.1.1", "7_3.0.9"}) {
        std::ofstream(folder / "a/.lock") << "process 1 on n3, start 7_3.1.2";
        refused(older);
        CHECK(contents(folder / "a/.lock") == "process 1 on n3, start 7_3.1.2");
    }
    for (const char* other : {"7_3.1.2", "7_3.1.10", "7_3.2.1", "7_4.0.1", "8.0.1", "1", "a.b.c"}) {
        std::ofstream(folder / "a/.lock") << "process 1 on n3, start 7_3.1.2";
        CHECK_NOTHROW(start(other));
    }
    ::unsetenv("GPTRAIN_START");
}

TEST_CASE("a directory knows whether it is still in its place") {
    const TempFolder folder;
    const RunDirectory run(folder / "a");
    CHECK(run.still_held());
    std::filesystem::rename(folder / "a", folder / "b");
    CHECK_FALSE(run.still_held());
    std::filesystem::create_directory(folder / "a");
    CHECK_FALSE(run.still_held());
    std::filesystem::remove(folder / "a");
    std::filesystem::rename(folder / "b", folder / "a");
    CHECK(run.still_held());
    std::filesystem::remove_all(folder / "a");
    CHECK_FALSE(run.still_held());
}

TEST_CASE("a directory whose lock is deleted or replaced is not held") {
    const TempFolder folder;
    const RunDirectory run(folder / "a");
    const auto lock = run.paths().lock();
    std::filesystem::rename(lock, folder / "moved");
    CHECK_FALSE(run.still_held());
    test::fill(lock, "");
    CHECK_FALSE(run.still_held());
    std::filesystem::rename(folder / "moved", lock);
    CHECK(run.still_held());
}

TEST_CASE("an unused directory goes with the folders that were made for it, and no other") {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "old");
    { const RunDirectory run(folder / "old"); }
    CHECK(std::filesystem::exists(folder / "old/.lock"));
    { const RunDirectory run(folder / "old/new/a"); }
    CHECK_FALSE(std::filesystem::exists(folder / "old/new"));
    {
        const RunDirectory run(folder / "runs/b");
        test::fill(folder / "runs/other", "");
    }
    CHECK_FALSE(std::filesystem::exists(folder / "runs/b"));
    CHECK(std::filesystem::exists(folder / "runs/other"));
    {
        const RunDirectory run(folder / "c");
        run.write_spec("name: a\n");
    }
    CHECK(std::filesystem::exists(folder / "c/.lock"));
}

TEST_CASE("a directory that cannot be is an error that names it") {
    const TempFolder folder;
    test::fill(folder / "file", "");
    CHECK(contains(test::message_of(ExitCode::usage, [&] { RunDirectory run(folder / "file"); }),
                   (folder / "file").string()));
    CHECK(contains(test::message_of(ExitCode::io, [&] { RunDirectory run(folder / "file/under"); }),
                   (folder / "file/under").string()));
    if (::geteuid() != 0) {
        std::filesystem::permissions(
            folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
        CHECK(contains(test::message_of(ExitCode::io, [&] { RunDirectory run(folder.path()); }),
                       "is not writable"));
        std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
    }
}

}  // namespace
}  // namespace gptrain
