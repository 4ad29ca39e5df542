#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/philox.h"
#include "calibrate/tuning.h"
#include "cuda/cuda_backend.h"
#include "cuda/needs.h"
#include "cuda/runtime/runtime.h"
#include "data/batch_loader.h"
#include "data/indexed_writer.h"
#include "data/training_data.h"
#include "engine/engine.h"
#include "engine/measure.h"
#include "gpu_bench.h"
#include "spec/make_plan.h"
#include "spec/model_cost.h"
#include "support/temp_folder.h"
#include "timed_backend.h"

namespace gptrain::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t warmup_steps = 5;
constexpr std::int64_t fewest_warmup_steps = 2;
constexpr double warmup_seconds = 10;
constexpr std::int64_t most_steps = 20;
constexpr std::int64_t fewest_steps = 5;
constexpr std::int64_t steps_by_op = 3;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

struct ModelSize {
    std::string_view name;
    std::int64_t layers, hidden, heads, seq_length, sequences, vocab;
    std::int64_t swiglu = 0;  ///< its width, of a model like Llama; 0: like GPT-2
};
constexpr ModelSize sizes[] = {
    {"gpt2-124m", 12, 768, 12, 1024, 64, 50257},
    {"gpt2-1.5b", 48, 1600, 25, 1024, 32, 50257},
    {"gpt3-6.7b", 32, 4096, 32, 2048, 4, 50257},
    {"llama-7b", 32, 4096, 32, 4096, 1, 32000, 11008},  // as Llama 2
    {"tiny", 2, 128, 2, 128, 2, 1009},                  // tries the benchmark itself
};

/// Writes PREFIX.bin and .idx with random ids below `vocab`.
void write_tokens(const std::filesystem::path& prefix, std::int64_t tokens, std::int64_t vocab) {
    constexpr std::int64_t sequence = 1 << 20;
    IndexedWriter writer(prefix, token_dtype(vocab));
    std::vector<std::int32_t> ids;
    for (std::int64_t begin = 0; begin < tokens; begin += sequence) {
        ids.clear();
        for (std::int64_t i = begin; i < std::min(tokens, begin + sequence); ++i) {
            const PhiloxBlock words = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, {});
            ids.push_back(static_cast<std::int32_t>(words[0] % static_cast<std::uint32_t>(vocab)));
        }
        writer.add_sequence(ids);
        writer.end_document();
    }
    writer.commit();
}

/// The step's batches as a run reads them: from token files, prefetched.
class Data {
public:
    explicit Data(const RunPlan& plan) {
        const std::int64_t samples = plan.batch.samples_of(plan.steps);
        const DataSource source = {folder_ / "random", 1.0};
        write_tokens(source.prefix, samples * plan.seq_length + 1, plan.model.vocab);
        DataSpec data;
        data.train = {source};
        data.split = "1";
        const TrainingData opened = make_training_data(data, {.seed = plan.seed,
                                                              .seq_length = plan.seq_length,
                                                              .num_samples = samples,
                                                              .eval_samples = 0,
                                                              .cache = folder_ / "cache"});
        BatchShape shape;
        shape.seq_length = plan.seq_length;
        shape.micro_batch_size = plan.micro_batch_size;
        shape.vocab_size = plan.model.vocab;
        loader_.emplace(opened.train, plan.batch, shape, StepRange{.last_step = plan.steps});
    }
    StepBatch next() { return loader_->next(); }

private:
    test::TempFolder folder_;
    std::optional<BatchLoader> loader_;
};

/// Issues each step before it waits for the previous one, as training does.
class StepLoop {
public:
    StepLoop(Engine& engine, Data& data) : engine_(engine), data_(data) { issue(); }

    /// Seconds from the end of one step to the end of the next.
    double step() {
        const Engine::StatePoint point = issued_;
        issue();
        const StepState state = engine_.numbers_at(point).state;
        loss_ = state.loss_sum / state.token_weight_sum;
        const double seconds = seconds_since(ended_);
        ended_ = Clock::now();
        return seconds;
    }
    double loss() const { return loss_; }

private:
    void issue() {
        engine_.step(data_.next());
        issued_ = engine_.mark_state();
    }

    Engine& engine_;
    Data& data_;
    Engine::StatePoint issued_;
    Clock::time_point ended_ = Clock::now();
    double loss_ = 0;
};

std::int64_t device_bytes(const MemoryPlan& plan) {
    std::int64_t bytes = 0;
    for (int i = 0; i < memory_uses; ++i) {
        const auto use = static_cast<MemoryUse>(i);
        if (space_of(use) == MemorySpace::device) bytes += plan[use];
    }
    return bytes;
}

/// Gives the plan the cheapest recompute mode that fits, or the one wanted; returns its cost.
StepCost choose_recompute(RunPlan& plan, const std::optional<Recompute>& wanted) {
    const auto cost = [&](Recompute recompute) {
        plan.recompute = recompute;
        return measure_run(plan, {}, cuda::backend_memory());
    };
    if (wanted) return cost(*wanted);
    // The rest is for what libraries allocate when they first compute.
    constexpr std::int64_t reserve = std::int64_t{1} << 30;
    const std::int64_t room = cuda::memory_info().free - reserve;
    for (const Recompute recompute : {Recompute::none, Recompute::selective}) {
        StepCost needed = cost(recompute);
        if (device_bytes(needed.memory) <= room) return needed;
    }
    return cost(Recompute::full);
}

/// Milliseconds per step of each op, of everything between ops, and of each size of GEMMs.
struct StepTimes {
    Json ops = Json::object();
    Json gemms = Json::object();
};

StepTimes times_of(TimedBackend& backend, StepLoop& loop) {
    backend.time(true);
    loop.step();
    backend.take_times();
    const Clock::time_point start = Clock::now();
    for (std::int64_t i = 0; i < steps_by_op; ++i)
        loop.step();
    backend.synchronize();
    const double wall = seconds_since(start) * 1e3 / steps_by_op;
    backend.time(false);
    const TimedBackend::Times times = backend.take_times();
    StepTimes result;
    double sum = 0;
    for (const auto& [op, milliseconds] : times.ops) {
        result.ops[op] = milliseconds / steps_by_op;
        sum += milliseconds / steps_by_op;
    }
    result.ops["between"] = wall - sum;
    for (const auto& [gemm, milliseconds] : times.gemms)
        result.gemms[gemm] = milliseconds / steps_by_op;
    return result;
}

void make_llama(ModelSpec& model, std::int64_t ffn) {
    model.ffn_hidden_size = ffn;
    model.position_embedding = PositionEmbedding::rope;
    model.normalization = Normalization::rmsnorm;
    model.activation = Activation::swiglu;
    model.bias = false;
    model.tie_embeddings = false;
}

}  // namespace

RunSpec model_spec(const StepOptions& options) {
    const auto size = std::find_if(std::begin(sizes), std::end(sizes), [&](const ModelSize& each) {
        return each.name == options.model;
    });
    if (size == std::end(sizes)) {
        std::string names;
        for (const ModelSize& each : sizes)
            names += text(names.empty() ? "" : ", ", each.name);
        fail(ExitCode::usage, options.model, ": no such model; there are ", names);
    }
    RunSpec spec;
    spec.name = options.model;
    spec.device = DeviceChoice::cuda;
    spec.model.num_layers = options.layers > 0 ? options.layers : size->layers;
    spec.model.hidden_size = size->hidden;
    spec.model.num_attention_heads = size->heads;
    spec.model.vocab_size = options.vocab > 0 ? options.vocab : size->vocab;
    if (size->swiglu > 0) make_llama(spec.model, size->swiglu);
    spec.training.seq_length = size->seq_length;
    spec.training.micro_batch_size = options.micro_batch_size.value_or(size->sequences);
    spec.training.global_batch_size = spec.training.micro_batch_size * options.microbatches;
    // One step is always in flight, and the first step timed by op does not count.
    spec.training.steps = warmup_steps + most_steps + steps_by_op + 2;
    spec.precision.compute = options.precision;
    spec.precision.fp8_recipe = options.fp8_recipe;
    spec.precision.fp8_weight_gradients = options.fp8_weight_gradients;
    spec.optimizer.lr = 1e-4;
    spec.checkpoint.async = false;
    spec.deterministic = options.deterministic;
    return spec;
}

Json measure_step(const StepOptions& options) {
    if (options.warm_seconds > 0) measure_product(options.warm_seconds);
    RunPlan plan = make_plan(model_spec(options), {.cuda = true});
    const std::int64_t free_before = cuda::memory_info().free;
    cuda::Options backend_options = cuda::options_from_environment();
    backend_options.tune_gemms = options.tune;
    backend_options.graphs = options.graphs;
    backend_options.deterministic = options.deterministic;
    const auto device = cuda::make_backend(0, backend_options);
    TimedBackend backend(*device);
    const Mesh mesh = one_rank_mesh();
    const StepCost cost = choose_recompute(plan, options.recompute);
    if (device->can_tune())
        device->set_choices(try_linear_ops(*device, cost.linear_ops, op_limits(plan)));
    Engine engine(backend, mesh, plan, cost.memory);
    engine.initialise();
    Data data(plan);
    StepLoop loop(engine, data);
    double sum = 0;
    for (std::int64_t i = 0; i < warmup_steps && (sum < warmup_seconds || i < fewest_warmup_steps);
         ++i)
        sum += loop.step();
    const double loss_before = loop.loss();

    std::vector<double> seconds;
    sum = 0;
    while (std::ssize(seconds) < most_steps &&
           (sum < options.seconds || std::ssize(seconds) < fewest_steps)) {
        seconds.push_back(loop.step());
        sum += seconds.back();
    }
    const double loss_after = loop.loss();
    const double tokens =
        static_cast<double>(plan.batch.global_batch_size * plan.seq_length) / median(seconds);
    const double flops = tokens * flops_per_token(plan);
    const StepTimes times = times_of(backend, loop);
    const std::int64_t taken = free_before - cuda::memory_info().free;
    return {{"model", options.model},
            {"precision", name_of(options.precision)},
            {"shape", text("B", plan.micro_batch_size, "xS", plan.seq_length)},
            {"microbatches", options.microbatches},
            {"recompute", name_of(plan.recompute)},
            {"graphs", options.graphs},
            {"deterministic", options.deterministic},
            {"warm_seconds", options.warm_seconds},
            {"parameters", parameter_count(plan.model)},
            {"steps", std::ssize(seconds)},
            {"step_time_s", median(seconds)},
            {"fastest_step_s", *std::min_element(seconds.begin(), seconds.end())},
            {"slowest_step_s", *std::max_element(seconds.begin(), seconds.end())},
            {"tokens_per_s", tokens},
            {"model_tflops", flops * 1e-12},
            {"mfu", flops / peak_flops},
            {"loss_before", loss_before},
            {"loss_after", loss_after},
            {"plan_device_bytes", device_bytes(cost.memory)},
            {"taken_device_bytes", taken},
            {"ms_by_op", times.ops},
            {"ms_by_gemm", times.gemms}};
}

}  // namespace gptrain::bench
