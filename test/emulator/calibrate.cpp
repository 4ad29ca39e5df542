// The calibration of an emulated GPU.
#include "calibrate/calibrate.h"

#include <algorithm>
#include <filesystem>

#include "calibrate/profile_text.h"
#include "catch.h"
#include "cuda/cuda_backend.h"
#include "cuda/needs.h"
#include "cuda/runtime/runtime.h"
#include "emulator/grid.h"
#include "hardware/load_profile.h"
#include "planner/step_estimate.h"
#include "spec/make_plan.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

constexpr Probe tiny(Precision precision) {
    return {.hidden = 32,
            .heads = 2,
            .vocab = 64,
            .seq_length = 16,
            .sequences = 2,
            .precision = precision};
}

/// More than any GPU has.
constexpr Probe huge = {.hidden = 1 << 20,
                        .heads = 1 << 13,
                        .vocab = 64,
                        .seq_length = 16,
                        .sequences = 1,
                        .precision = Precision::bf16};

bool is_measured(const HardwareProfile& profile, std::string_view name, Precision precision) {
    const auto& ops = profile.device.measured;
    return std::any_of(ops.begin(), ops.end(), [&](const MeasuredOp& op) {
        return op.op == name && op.precision == precision && op.threads == 1 && op.seconds > 0;
    });
}

}  // namespace

TEST_CASE("the calibration of a GPU measures what the device and its host take") {
    emulator::settings() = {.major = 8, .minor = 6, .shared_bytes = 99 << 10};
    const MpiSession alone;
    const auto backend = cuda::make_backend();
    const MeasuredDevices gpu = {
        .kind = DeviceChoice::cuda,
        .backend = [&](int /*threads*/) -> Backend& { return *backend; },
        .connect = [](Backend& /*backend*/, const MeshShape& /*shape*/,
                      const MeshConnections& /*connections*/) { return one_rank_mesh(); }};
    const Probe probes[] = {tiny(Precision::bf16), huge, tiny(Precision::fp32)};
    const TempFolder folder;
    const HardwareProfile profile =
        calibrate(alone, {.folder = folder.path(), .devices = gpu, .probes = probes});
    CHECK(profile.kind == DeviceChoice::cuda);
    CHECK(profile.node.devices == 1);
    for (const std::string_view op :
         {"linear_forward", "linear_weight_grad", "attention_forward", "attention_backward"}) {
        INFO(op);
        CHECK(is_measured(profile, op, Precision::bf16));
        CHECK(is_measured(profile, op, Precision::fp32));
    }
    // Ops that do not record their precision come from the first probe.
    CHECK(is_measured(profile, "residual_norm_forward", Precision::fp32));
    const DeviceProfile& device = profile.device;
    CHECK(device.peak_flops.bf16 > 0);
    CHECK(device.peak_flops.fp8 == 0);
    CHECK(device.memory == static_cast<double>(cuda::memory_info().total));
    CHECK(device.issue_seconds > 0);
    CHECK(device.copy_bandwidth > 0);

    const HardwareProfile read = parse_profile(profile_text(profile, "By a test."), "test.yaml");
    CHECK(read.kind == DeviceChoice::cuda);
    CHECK(read.device.issue_seconds == Approx(device.issue_seconds).epsilon(1e-3));
    CHECK(read.device.copy_bandwidth == Approx(device.copy_bandwidth).epsilon(1e-3));
    CHECK(read.device.measured.size() == device.measured.size());
    RunSpec spec = spec_of(probes[0]);
    const RunPlan plan = make_plan(spec, {.cuda = true});
    const BackendMemory needs = cuda::backend_memory();
    TracedStep step(plan, needs);
    const StepEstimate estimate = estimate_step(step, measure_mesh(plan, needs), read);
    CHECK(estimate.step.seconds > 0);
}

}  // namespace gptrain::test
