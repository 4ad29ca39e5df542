// How an exception ends a program.
#include "base/process.h"

#include <filesystem>
#include <limits>
#include <new>
#include <system_error>

#include "catch.h"

using namespace gptrain;

TEST_CASE("an exception has one line and an exit code", "[base]") {
    const Failure own = failure_of(Error(ExitCode::bad_input, "a.txt: bad"));
    CHECK(own.message == "a.txt: bad");
    CHECK(own.code == ExitCode::bad_input);
    const Failure memory = failure_of(std::bad_alloc());
    CHECK(memory.message.starts_with("out of memory"));
    CHECK(memory.code == ExitCode::usage);
    const auto refused = std::make_error_code(std::errc::resource_unavailable_try_again);
    const Failure threads = failure_of(std::system_error(refused));
    CHECK(threads.message.find("threads") != std::string::npos);
    CHECK(threads.code == ExitCode::usage);
    const Failure path = failure_of(std::filesystem::filesystem_error(
        "status", "a/b", std::make_error_code(std::errc::permission_denied)));
    CHECK(path.message == "a/b: Permission denied");
    CHECK(path.code == ExitCode::io);
    for (const Failure& bug :
         {failure_of(std::system_error(std::make_error_code(std::errc::invalid_argument))),
          failure_of(std::runtime_error("what"))}) {
        CHECK(bug.message.starts_with("internal error: "));
        CHECK(bug.code == ExitCode::bug);
    }
}

TEST_CASE("memory that cannot be had is refused before it is needed", "[base]") {
    CHECK_NOTHROW(require_memory(1 << 20));
    CHECK_THROWS_AS(require_memory(std::numeric_limits<std::int64_t>::max()), std::bad_alloc);
}
