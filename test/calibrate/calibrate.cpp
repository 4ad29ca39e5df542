// The calibration of the machine that the tests run on, with the smallest of probes.
#include "calibrate/calibrate.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <omp.h>

#include "calibrate/measure_messages.h"
#include "calibrate/profile_text.h"
#include "calibrate/samples.h"
#include "catch.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "hardware/load_profile.h"
#include "planner/step_estimate.h"
#include "ranks.h"
#include "spec/make_plan.h"

namespace gptrain::test {
namespace {

constexpr Probe tiny[] = {
    {.hidden = 32, .heads = 2, .vocab = 64, .seq_length = 16, .sequences = 2},
    {.hidden = 32,
     .heads = 2,
     .vocab = 64,
     .seq_length = 16,
     .sequences = 1,
     .precision = Precision::bf16},
    {.hidden = 32, .heads = 2, .vocab = 64, .seq_length = 16, .sequences = 2, .tensor = 2},
};

Backend& backend_with(int threads) {
    static std::map<int, std::unique_ptr<Backend>> backends;
    omp_set_num_threads(threads);
    std::unique_ptr<Backend>& backend = backends[threads];
    if (!backend) backend = cpu::make_backend();
    return *backend;
}

/// One core for each rank, and two for a single rank.
MeasuredDevices cores() {
    return {.kind = DeviceChoice::cpu,
            .per_node = session().size(),
            .threads = 1,
            .max_threads = 2,
            .backend = backend_with,
            .connect = [](Backend& backend, const MeshShape& shape,
                          const MeshConnections& connections) {
                return session().running() ? mpi_mesh(session(), shape, connections, backend)
                                           : one_rank_mesh();
            }};
}

HardwareProfile calibrated() {
    return calibrate(
        session(),
        {.folder = std::filesystem::temp_directory_path(), .devices = cores(), .probes = tiny});
}

/// Seconds of a step of a small model by the profile.
double estimated(const HardwareProfile& hardware, std::int64_t ranks) {
    RunSpec spec;
    spec.name = "small";
    spec.model.num_layers = 2;
    spec.model.hidden_size = 64;
    spec.model.num_attention_heads = 2;
    spec.model.vocab_size = 128;
    spec.training.seq_length = 32;
    spec.training.steps = 1;
    spec.parallel.tensor = ranks;
    const RunPlan plan = make_plan(spec, {.world_size = ranks});
    const auto backend = cpu::make_backend();
    const BackendMemory needs = memory_of(*backend);
    TracedStep step(plan, needs);
    return estimate_step(step, measure_mesh(plan, needs), hardware).step.seconds;
}

}  // namespace

std::unique_ptr<Backend> make_backend() {
    return cpu::make_backend();
}
std::vector<Way> ways() {
    return {};
}
std::string why_not_run() {
    return {};
}

TEST_CASE("every probe is a run that the program accepts") {
    const auto check = [](const Probe& probe, bool cuda) {
        RunSpec spec = spec_of(probe);
        spec.training.global_batch_size = 2 * probe.sequences;
        CHECK_NOTHROW(make_plan(spec, {.world_size = probe.tensor * probe.context, .cuda = cuda}));
    };
    for (const Probe& probe : cpu_probes())
        check(probe, false);
    for (const Probe& probe : gpu_probes(true))
        check(probe, true);
}

TEST_CASE("the quartiles of repeats") {
    const SampleSummary nine = summary({9, 1, 8, 2, 7, 3, 6, 4, 5});
    CHECK(nine.seconds == 3);
    CHECK(nine.spread == Approx(4.0 / 3));
    CHECK(summary({2}).seconds == 2);
    CHECK(summary({2}).spread == 0);
}

TEST_CASE("a calibration measures what a plan needs, and its file reads back") {
    const HardwareProfile profile = calibrated();
    const std::int64_t ranks = session().size();
    const auto measured = [&](std::string_view name, std::int64_t threads, Precision precision) {
        return std::any_of(profile.device.measured.begin(), profile.device.measured.end(),
                           [&](const MeasuredOp& op) {
                               return op.op == name && op.threads == threads &&
                                      op.precision == precision && op.seconds > 0;
                           });
    };
    for (const std::string_view op :
         {"linear_forward", "linear_input_grad", "linear_weight_grad", "attention_forward",
          "attention_backward", "residual_norm_forward", "cross_entropy", "adamw"}) {
        INFO(op);
        CHECK(measured(op, 1, Precision::fp32));
        // Half of two ranks have twice the threads; a single rank has no half.
        const bool waits = session().rank() > 0;
        CHECK(measured(op, 2, Precision::fp32) == (ranks == 2 && !waits));
    }
    CHECK(measured("linear_forward", 1, Precision::bf16));
    CHECK_FALSE(measured("adamw", 1, Precision::bf16));
    CHECK(measured("vocab_parallel_sums", 1, Precision::fp32) == (ranks == 2));
    CHECK((profile.device.spread > 0) == (ranks == 2));
    CHECK(profile.device.spread < 1);
    CHECK(profile.node.devices == ranks);
    CHECK(profile.node.link.measured.empty() == (ranks == 1));
    CHECK((profile.node.disk_bandwidth > 0) == (session().rank() == 0));

    const std::string yaml = profile_text(profile, "Measured by a test.");
    const HardwareProfile read = parse_profile(yaml, "test.yaml");
    CHECK(read.kind == DeviceChoice::cpu);
    CHECK(read.device.spread == Approx(profile.device.spread).margin(1e-3));
    CHECK(read.device.op_spread == Approx(profile.device.op_spread).margin(1e-3));
    REQUIRE(read.device.measured.size() == profile.device.measured.size());
    CHECK(read.device.measured.back().seconds ==
          Approx(profile.device.measured.back().seconds).epsilon(1e-3));
    CHECK(read.node.link.measured.size() == profile.node.link.measured.size());
    for (std::int64_t planned = 1; planned <= ranks; ++planned)
        CHECK(estimated(read, planned) == Approx(estimated(profile, planned)).epsilon(1e-2));
}

TEST_CASE("messages between nodes are measured with one rank of each, and with all") {
    if (session().size() < 2) return;
    const MessageTimes times = measure_messages(session(), cores(), 1);  // a rank is a node
    REQUIRE(times.network);
    CHECK(times.network->bandwidth > 0);
    CHECK(times.network->latency > 0);
    CHECK(times.network->latency < 16e6 / times.network->bandwidth);
    CHECK(times.cards == 1);
    CHECK(times.link.measured.empty());

    HardwareProfile profile;
    profile.name = "small";
    profile.device.memory = 1e9;
    profile.device.memory_bandwidth = 1e9;
    profile.device.peak_flops.fp32 = 1e9;
    profile.device.attention = {{.head_dim = 64, .forward = 1e9, .backward = 1e9}};
    MeasuredOp update;
    update.op = "adamw";
    update.bytes = 1e6;
    update.seconds = 1e-3;
    profile.device.measured = {update};
    profile.node.network = times.network;
    profile.node.cards = 3;
    profile.device.message_issue_seconds = 3e-5;
    profile.device.gemm_crowding = 1.5;
    const HardwareProfile read = parse_profile(profile_text(profile, "By a test."), "test.yaml");
    CHECK(read.device.message_issue_seconds == Approx(3e-5));
    CHECK(read.device.gemm_crowding == Approx(1.5));
    REQUIRE(read.node.network);
    CHECK(read.node.network->bandwidth == Approx(times.network->bandwidth).epsilon(1e-3));
    CHECK(read.node.cards == 3);
}

TEST_CASE("messages are measured beside GEMMs") {
    if (session().size() < 2) return;
    Backend& backend = backend_with(1);
    const auto mesh =
        mpi_mesh(session(), {.tensor = session().size()}, connections_of({Axis::tp}), backend);
    const MessageCosts costs = measure_message_costs(mesh.tp(), backend, 64);
    CHECK(costs.issue_seconds > 0);
    CHECK(costs.gemm_crowding > 0);
}

}  // namespace gptrain::test
