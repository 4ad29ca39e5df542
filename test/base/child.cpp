// Child processes: their output, how they end, and their time limit.
#include "base/child.h"

#include <csignal>

#include "base/error.h"
#include "catch.h"

using namespace gptrain;
using namespace std::chrono_literals;

namespace {

ChildEnd run_shell(const std::string& script, std::chrono::milliseconds limit = 60s) {
    return run_child("/bin/sh", {"-c", script}, limit);
}

}  // namespace

TEST_CASE("a child's end and output are known", "[base]") {
    const ChildEnd done = run_shell("echo one; echo two");
    CHECK(done.kind == ChildEnd::Kind::exited);
    CHECK(done.number == 0);
    CHECK(done.output == "one\ntwo\n");
    CHECK(run_shell("exit 3").describe() == "ended with exit code 3");
    CHECK(run_shell("kill -SEGV $$").describe() == "was ended by signal 11");
    CHECK(run_shell("cat").output.empty());
    CHECK(run_shell("head -c 1000000 /dev/zero").output.size() == 65536);
}

TEST_CASE("a child that hangs is killed", "[base]") {
    // One child keeps its output open, the other closes it first.
    for (const std::string script : {"echo begun; sleep 100", "exec >&-; sleep 100"}) {
        const auto begin = std::chrono::steady_clock::now();
        const ChildEnd end = run_shell("exec 2>/dev/null; " + script, 300ms);
        CHECK(end.describe() == "did not end in time");
        CHECK(std::chrono::steady_clock::now() - begin < 50s);
    }
}

TEST_CASE("a program that is not there is an error", "[base]") {
    CHECK_THROWS_AS(run_child("/no/such/program", {}, 1s), Error);
}
