// The time of a step on the cores of a CPU, which ranks may share.
#include "catch.h"
#include "planner/step_time.h"
#include "traced_steps.h"

namespace gptrain::test {
namespace {

/// One node with this many cores.
HardwareProfile node_of(std::int64_t cores) {
    HardwareProfile hardware = unit_hardware();
    hardware.kind = DeviceChoice::cpu;
    hardware.node.devices = cores;
    hardware.node.network.reset();
    return hardware;
}

}  // namespace

TEST_CASE("on a CPU the receiver moves the data while it waits") {
    const StepTrace step =
        Script().op(gemm(1)).message(Axis::dp, 4).op(gemm(5)).wait(Axis::dp).trace();
    // Four ranks on four cores: one core each.
    CHECK(time_of(step, data_and_tensor, node_of(4)).seconds == Approx(1 + 5 + 4));
    // Two on a core, which takes turns with their messages too.
    CHECK(time_of(step, data_and_tensor, node_of(2)).seconds == Approx(2 * (1 + 5 + 4)));
}

TEST_CASE("with more ranks than cores a stage that waits leaves its core to the others") {
    // Each stage works for 4 seconds while the other one waits, then both work for 3.
    Script first;
    first.op(gemm(4)).action().between("send", 1, 0).between("recv", 1, 0).wait(101);
    Script second;
    second.between("recv", 0, 0).wait(101).op(gemm(4)).action().between("send", 0, 0);
    const auto end = [](Script& script) {
        return script.op(gemm(3)).message(Axis::model, 0, "all_reduce").wait(Axis::model).trace();
    };
    const std::vector stages = {end(first), end(second)};
    CHECK(time_of(stages, {.pipeline = 2}, node_of(1)).seconds == Approx(4 + 4 + 2 * 3));
    CHECK(time_of(stages, {.pipeline = 2}, node_of(2)).seconds == Approx(4 + 4 + 3));
}

TEST_CASE("with more ranks than cores a stage shares its core until it waits") {
    // Both work for 8 seconds at half speed; then the second waits for the rest of the first.
    Script first;
    for (int i = 0; i < 10; ++i)
        first.op(gemm(1));
    first.action().between("send", 1, 0);
    Script second;
    second.op(gemm(4)).between("recv", 0, 0).wait(101).action();
    const auto end = [](Script& script) {
        return script.message(Axis::model, 0, "all_reduce").wait(Axis::model).trace();
    };
    CHECK(time_of(std::vector{end(first), end(second)}, {.pipeline = 2}, node_of(1)).seconds ==
          Approx(8 + 6));
}

}  // namespace gptrain::test
