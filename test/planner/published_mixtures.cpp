// Predicts the step times of mixtures of experts that others have trained.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "catch.h"
#include "cuda/needs.h"
#include "hardware/message_time.h"
#include "planner/megatron.h"
#include "planner/mesh_cost.h"
#include "spec/make_plan.h"

namespace gptrain::test {
namespace {

/// A row of published_mixtures.csv. Its runs force equal loads.
struct PublishedMixture {
    std::string source;
    std::string spec;  ///< the file of a run spec, from the folder of the rows
    std::int64_t gpus = 1;
    std::vector<std::string> settings = {};
    /// A row goes once to each other node that has experts of its token, as with DeepEP and
    /// HybridEP, not once for each such expert.
    bool once_a_node = false;
    double seconds = 0;  ///< of a step
};

constexpr std::string_view set_keys[] = {
    "parallel.tensor", "parallel.pipeline",         "parallel.virtual_stages",
    "parallel.expert", "training.micro_batch_size", "training.global_batch_size",
    "recompute"};

const std::filesystem::path folder = GPTRAIN_TEST_DATA;

std::vector<PublishedMixture> published_mixtures() {
    std::ifstream file(folder / "published_mixtures.csv");
    std::vector<PublishedMixture> runs;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        const auto next = [&] {
            std::string field;
            std::getline(fields, field, ',');
            return field;
        };
        PublishedMixture run;
        run.source = next();
        run.spec = next();
        run.gpus = std::stoll(next());
        for (const std::string_view key : set_keys)
            run.settings.push_back(text(key, "=", next()));
        run.once_a_node = next() == "nodes";
        run.seconds = std::stod(next());
        runs.push_back(std::move(run));
    }
    return runs;
}

/// As Megatron-Core runs it.
RunPlan plan_of(const PublishedMixture& run) {
    RunSpec spec = load_run_spec(folder / run.spec, run.settings);
    spec.model.experts->load = 1;
    ParallelSpec& parallel = spec.parallel;
    const std::int64_t chunks = parallel.pipeline * parallel.virtual_stages;
    parallel.sequence_parallel = parallel.tensor > 1;
    parallel.overlap_tensor = OverlapTensor::off;
    parallel.schedule = parallel.virtual_stages > 1 ? ScheduleKind::interleaved_one_f_one_b
                                                    : ScheduleKind::one_f_one_b;
    // The embedding and the head count as layers where the chunks do not divide the layers.
    const std::int64_t layers = spec.model.num_layers;
    const std::int64_t ends = layers % chunks == 0 ? 0 : 1;
    parallel.layers.emplace(static_cast<std::size_t>(chunks), (layers + 2 * ends) / chunks);
    parallel.layers->front() -= ends;
    parallel.layers->back() -= ends;
    RunPlan plan = make_plan(spec, {.world_size = run.gpus, .cuda = true, .dry_run = true});
    plan.deferred_heads = 0;
    // Megatron-LM clears all gradients and adds to them.
    plan.overwrites_gradients = false;
    return plan;
}

/// The part of the rows sent to other nodes that remains if each row goes to a node once: with K of
/// E experts chosen at random, N (1 - p) / K, where p is the probability that a node has none of
/// them.
double once_a_node(const ExpertsSpec& experts, std::int64_t nodes) {
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    double none = 1;
    for (std::int64_t chosen = 0; chosen < experts.per_token; ++chosen) {
        const std::int64_t left = experts.count - chosen;
        none *= 1 - real(experts.count) / real(nodes) / real(left);
    }
    return real(nodes) * (1 - none) / real(experts.per_token);
}

/// This program's step, with the messages of the run's software.
StepTime step_of(const PublishedMixture& run) {
    const HardwareProfile hardware = core_hardware();
    const RunPlan plan = plan_of(run);
    PipelineTraces pipeline = {.mesh = plan.mesh,
                               .chunks = plan.virtual_stages,
                               .stages = trace_stages(plan, cuda::backend_memory())};
    const GroupLayout layout = group_layout(Axis::experts, plan.mesh, hardware.node.devices);
    const bool fewer = run.once_a_node && layout.nodes() > 1;
    const double part = fewer ? once_a_node(*plan.model.experts, layout.nodes()) : 1;
    for (StepTrace& stage : pipeline.stages) {
        for (TraceMessage& message : stage.messages) {
            if (message.axis == Axis::experts && message.operation == "all_to_all")
                message.bytes = std::llround(part * static_cast<double>(message.bytes));
        }
    }
    return time_step(pipeline, hardware);
}

struct MixturePrediction {
    PublishedMixture run;
    double seconds;

    double error() const { return seconds / run.seconds - 1; }
};

const std::vector<MixturePrediction>& mixture_predictions() {
    static const std::vector<MixturePrediction> all = [] {
        std::vector<MixturePrediction> list;
        for (const PublishedMixture& run : published_mixtures())
            list.push_back({run, step_of(run).seconds});
        return list;
    }();
    return all;
}

double seconds_of(std::string_view source) {
    for (const MixturePrediction& each : mixture_predictions())
        if (each.run.source.find(source) != std::string::npos) return each.seconds;
    throw std::runtime_error("no such row");
}

}  // namespace

// The runs' software is slower than this program's kernels are taken to be (docs/planning.md).
TEST_CASE("published mixtures are predicted from the profile's constants") {
    double sizes = 0;
    for (const MixturePrediction& each : mixture_predictions()) {
        CAPTURE(each.run.source, each.run.spec);
        CHECK(each.error() < 0);
        sizes += std::abs(each.error());
    }
    CHECK(sizes / static_cast<double>(mixture_predictions().size()) < 0.25);
}

// Published: 41.25 and 24.71 s.
TEST_CASE("rows that cross to a node once save what they have been seen to save") {
    CHECK(seconds_of("2026-05-18") / seconds_of("2026-07-25") == Approx(1.67).margin(0.05));
}

TEST_CASE("table of published mixtures", "[.table]") {
    std::printf("\n%-44s %-20s %5s %9s %9s %7s\n", "source", "spec", "GPUs", "published",
                "predicted", "error");
    for (const MixturePrediction& each : mixture_predictions()) {
        const PublishedMixture& run = each.run;
        std::printf("%-44s %-20s %5lld %9.3f %9.3f %+6.1f%%\n", run.source.c_str(),
                    std::filesystem::path(run.spec).stem().c_str(),
                    static_cast<long long>(run.gpus), run.seconds, each.seconds,
                    100 * each.error());
    }
}

}  // namespace gptrain::test
