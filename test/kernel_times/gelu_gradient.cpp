// What GELU's gradient costs a step on GPUs whose GEMMs cannot end with it.
#include "catch.h"
#include "kernel_times/step_table.h"

namespace gptrain::test {

TEST_CASE("GELU's gradient takes the time of its bytes on A100 and none on H100") {
    const DocPage page(GPTRAIN_SOURCES "/docs/kernel-times.md");
    const KernelTable table(page);
    std::vector<Gpu> gpus(std::begin(machines), std::end(machines));
    REQUIRE(gpus[0].hardware.name == "a100-80gb");
    REQUIRE(gpus[1].hardware.name == "h100-sxm");
    const StepTable step(table, gpus, sizes[0]);
    gpus[0].hardware.device.fuses_gelu_gradient = true;
    const StepTable fused(table, gpus, sizes[0]);
    // 12 layers of 64 x 1024 tokens, 4 x 768 wide; in 16 bits GELU's input and the result.
    const double bytes = 12.0 * 64 * 1024 * 4 * 768 * 2 * 2;
    const double expected = bytes / (2039e9 * 0.83);
    for (const auto estimate : {&Line::seconds, &Line::seconds_apart, &Line::published}) {
        CHECK(step.seconds(estimate, 0) - fused.seconds(estimate, 0) == Approx(expected));
        CHECK(step.seconds(estimate, 1) == fused.seconds(estimate, 1));
    }
    CHECK(step.line("GELU, backward").seconds[1] == 0);
}

}  // namespace gptrain::test
