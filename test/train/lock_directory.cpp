#include "train/lock_directory.h"

#include <cstdlib>

#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a lock that is held is waited for as long as the caller's patience lasts") {
    const test::TempFolder folder;
    const MpiSession alone;
    std::optional<RunDirectory> first;
    int moves = 0;
    const auto moved = [&] { ++moves; };
    lock_directory(first, folder / "a", 0s, alone, moved);
    REQUIRE(first.has_value());
    CHECK(moves == 1);
    std::optional<RunDirectory> second;
    const auto try_second = [&](std::chrono::seconds patience) {
        lock_directory(second, folder / "a", patience, alone, moved);
    };
    CHECK(test::contains(test::message_of(ExitCode::usage, [&] { try_second(0s); }), "in use by"));
    CHECK(moves == 2);
    CHECK(test::contains(test::message_of(ExitCode::hang, [&] { try_second(1s); }), "in use by"));
    CHECK(moves >= 4);
    first.reset();
    try_second(1s);
    CHECK(second.has_value());
}

TEST_CASE("only another start of the job makes a start patient") {
    ::unsetenv("SLURM_RESTART_COUNT");
    CHECK(lock_patience() == 0s);
    for (const char* none : {"0", "", "word"}) {
        REQUIRE(::setenv("SLURM_RESTART_COUNT", none, 1) == 0);
        CHECK(lock_patience() == 0s);
    }
    REQUIRE(::setenv("SLURM_RESTART_COUNT", "2", 1) == 0);
    CHECK(lock_patience() >= 120s);
    ::unsetenv("SLURM_RESTART_COUNT");
    for (const char* first : {"7.0.1", "7_3.2.1", "2.", "word"}) {
        REQUIRE(::setenv("GPTRAIN_START", first, 1) == 0);
        CHECK(lock_patience() == 0s);
    }
    REQUIRE(::setenv("GPTRAIN_START", "7_3.0.2", 1) == 0);
    CHECK(lock_patience() >= 120s);
    ::unsetenv("GPTRAIN_START");
}

}  // namespace
}  // namespace gptrain
