// Every op on every backend compared with the reference, and its speed.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "backends.h"
#include "base/log.h"
#include "cases.h"
#include "catch.h"

namespace gptrain {
namespace {

/// Also checks that the same call gives the same bits, and that each backend has cases to test.
void check(const std::vector<OpCase>& cases) {
    for (const auto& backend : built_backends()) {
        ScratchMemory scratch(*backend);
        std::int64_t tested = 0;
        for (const OpCase& op : cases) {
            if (op.large || !is_tested(op)) continue;
            ++tested;
            INFO(backend->name() << ": " << op.name);
            OpRun run(*backend, op, scratch);
            run.run();
            CHECK(run.faults() == "");
            for (int repetition = 1; repetition < repetitions(op); ++repetition) {
                INFO("repetition " << repetition);
                begin_repetition(repetition);
                OpRun again(*backend, op, scratch);
                again.run();
                CHECK(again.memory() == run.memory());
            }
            begin_repetition(0);
        }
        INFO(backend->name());
        CHECK(tested > 0);
    }
}

/// Seconds of the fastest of eight runs: other load on the machine only adds time.
double time(Backend& backend, OpRun& run) {
    double fastest = INFINITY;
    for (int repetition = 0; repetition < 8; ++repetition) {
        const auto start = std::chrono::steady_clock::now();
        run.run();
        backend.synchronize();
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        fastest = std::min(fastest, seconds.count());
    }
    return fastest;
}

void time_all(const std::vector<OpCase>& cases) {
    for (const auto& backend : built_backends()) {
        ScratchMemory scratch(*backend);
        for (const OpCase& op : cases) {
            if (!op.large) continue;
            OpRun run(*backend, op, scratch);
            const double seconds = time(*backend, run);
            const double work = op.flops > 0 ? op.flops : static_cast<double>(run.bytes_moved());
            print(backend->name(), " ", op.name, ": ", fixed(seconds * 1e3, 3), " ms, ",
                  fixed(work / seconds * 1e-9, 1), op.flops > 0 ? " GFLOP/s" : " GB/s");
        }
    }
}

}  // namespace

TEST_CASE("linear ops agree with the reference") {
    check(linear_cases());
}
TEST_CASE("FP8 ops agree with the reference") {
    check(fp8_cases());
}
TEST_CASE("FP8 ops in blocks agree with the reference") {
    check(fp8_block_cases());
}
TEST_CASE("int8 ops agree with the reference") {
    check(int8_cases());
    check(nf4_cases());
}
TEST_CASE("norm and dropout ops agree with the reference") {
    check(norm_cases());
}
TEST_CASE("norms of heads agree with the reference") {
    check(head_norm_cases());
    check(row_norm_cases());
}
TEST_CASE("activation ops agree with the reference") {
    check(activation_cases());
}
TEST_CASE("embedding and position ops agree with the reference") {
    check(embedding_cases());
}
TEST_CASE("attention ops agree with the reference") {
    check(attention_cases());
}
TEST_CASE("loss ops agree with the reference") {
    check(loss_cases());
}
TEST_CASE("router ops agree with the reference") {
    check(router_cases());
}
TEST_CASE("ops of experts' rows agree with the reference") {
    check(expert_cases());
}
TEST_CASE("grouped linear ops agree with the reference") {
    check(grouped_linear_cases());
}
TEST_CASE("optimizer ops agree with the reference") {
    check(optimizer_cases());
    check(muon_cases());
    check(small_moment_cases());
}

// Runs only if requested: test_ops "[timing]".
TEST_CASE("timing: linear ops", "[.timing]") {
    time_all(linear_cases());
}
TEST_CASE("timing: FP8 ops", "[.timing]") {
    time_all(fp8_cases());
    time_all(fp8_block_cases());
}
TEST_CASE("timing: int8 ops", "[.timing]") {
    time_all(int8_cases());
    time_all(nf4_cases());
}
TEST_CASE("timing: norm and dropout ops", "[.timing]") {
    time_all(norm_cases());
}
TEST_CASE("timing: norms of heads", "[.timing]") {
    time_all(head_norm_cases());
    time_all(row_norm_cases());
}
TEST_CASE("timing: activation ops", "[.timing]") {
    time_all(activation_cases());
}
TEST_CASE("timing: embedding and position ops", "[.timing]") {
    time_all(embedding_cases());
}
TEST_CASE("timing: attention ops", "[.timing]") {
    time_all(attention_cases());
}
TEST_CASE("timing: loss ops", "[.timing]") {
    time_all(loss_cases());
}
TEST_CASE("timing: router ops", "[.timing]") {
    time_all(router_cases());
}
TEST_CASE("timing: ops of experts' rows", "[.timing]") {
    time_all(expert_cases());
}
TEST_CASE("timing: grouped linear ops", "[.timing]") {
    time_all(grouped_linear_cases());
}
TEST_CASE("timing: optimizer ops", "[.timing]") {
    time_all(optimizer_cases());
    time_all(muon_cases());
    time_all(small_moment_cases());
}

}  // namespace gptrain
