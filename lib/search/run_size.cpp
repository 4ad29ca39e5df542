#include "search/run_size.h"

#include <algorithm>

#include "base/checked.h"
#include "spec/model_cost.h"

namespace gptrain {
namespace {

constexpr double seconds_per_hour = 3600;
/// On a CPU, up to this many ranks per planned one can share a step.
constexpr std::int64_t cpu_ranks = 8;

class RunSizing {
public:
    RunSizing(const RunSpec& base, const RunBudget& budget, const RunMachine& machine)
        : base_(base), budget_(budget), machine_(machine) {}

    /// Why a model of this size does not suit the budget and the machine; empty if it does.
    std::optional<SizeLimit> refusal(const ModelSize& size) const {
        const RunSpec spec = with_model(size);
        const double wanted = wanted_tokens(spec);
        if (wanted > static_cast<double>(budget_.max_tokens())) return SizeLimit::tokens;
        const auto run = train_on(spec, static_cast<std::int64_t>(wanted));
        if (!run) return SizeLimit::memory;
        if (budget_.hours && tokens_in_time(*run) < wanted) return SizeLimit::time;
        return std::nullopt;
    }

    /// Trained with the whole budget; nothing if it does not fit into the memory.
    std::optional<SizedRun> train(const ModelSize& size) const {
        const RunSpec spec = with_model(size);
        std::int64_t tokens = budget_.max_tokens();
        // Fewer tokens make smaller batches, which are slower.
        while (true) {
            auto run = train_on(spec, tokens);
            if (!run || !budget_.hours || run->spec.training.steps == 1) return run;
            const double in_time = tokens_in_time(*run);
            if (in_time >= static_cast<double>(run->tokens)) return run;
            tokens = static_cast<std::int64_t>(in_time);
        }
    }

private:
    RunSpec with_model(const ModelSize& size) const {
        RunSpec spec = base_;
        spec.model = model_of(size, base_.model.vocab_size);
        if (base_.model.experts) {
            ExpertsSpec& experts = spec.model.experts.emplace(*base_.model.experts);
            experts.ffn_hidden_size = *spec.model.ffn_hidden_size / experts.per_token;
        }
        spec.training.seq_length = size.seq_length;
        return spec;
    }

    std::int64_t parameters_of(RunSpec spec, bool with_experts = false) const {
        if (!with_experts) spec.model.experts.reset();
        spec.training.steps = 1;
        const PlanTarget one_rank = {
            .world_size = 1, .cuda = machine_.target.cuda, .dry_run = true};
        return parameter_count(make_plan(spec, one_rank).model);
    }

    double wanted_tokens(const RunSpec& spec) const {
        return tokens_per_parameter * static_cast<double>(parameters_of(spec));
    }

    double tokens_in_time(const SizedRun& run) const {
        return run.estimate.tokens_per_second * *budget_.hours * seconds_per_hour;
    }

    /// Sets all that follows from the tokens. Empty if it does not fit into memory.
    std::optional<SizedRun> train_on(RunSpec spec, std::int64_t tokens) const {
        const std::int64_t active = parameters_of(spec);
        set_training(spec, training_size(active, tokens, spec.training.seq_length,
                                         machine_.target.world_size));
        const SearchContext context = {.spec = spec,
                                       .target = machine_.target,
                                       .needs = machine_.needs,
                                       .hardware = machine_.hardware,
                                       .capacity = machine_.capacity};
        const SearchResult found = search(context, space_of(spec), 1);
        if (found.best.empty()) return std::nullopt;
        const TrainingSpec& training = spec.training;
        return SizedRun{
            .spec = with_choices(spec, found.best.front().choices),
            .parameters = parameters_of(spec, true),
            .active = active,
            .tokens = checked_mul(checked_mul(training.steps, *training.global_batch_size),
                                  training.seq_length),
            .estimate = found.best.front().estimate,
        };
    }

    /// On a CPU with microbatches for more ranks than planned: `mpirun -n 2` runs on the cores of
    /// the same machine. According to the estimate, smaller microbatches cost a few per cent there.
    SearchSpace space_of(const RunSpec& spec) const {
        SearchSpace space = whole_space(spec);
        if (machine_.hardware.kind != DeviceChoice::cpu) return space;
        const std::int64_t samples = *spec.training.global_batch_size;
        const std::int64_t most = samples / (cpu_ranks * machine_.target.world_size);
        space.micro_batch = dividing_values({}, samples);
        std::erase_if(space.micro_batch,
                      [&](std::int64_t size) { return size > std::max<std::int64_t>(most, 1); });
        return space;
    }

    static void set_training(RunSpec& spec, const TrainingSize& size) {
        set_steps(spec, size.steps);
        spec.training.global_batch_size = size.global_batch_size;
        spec.optimizer.lr = size.lr;
        spec.lr_schedule.warmup_steps = std::clamp<std::int64_t>(size.steps / 20, 1, 2000);
        spec.lr_schedule.min_lr = size.lr / 10;
    }

    const RunSpec& base_;
    const RunBudget& budget_;
    const RunMachine& machine_;
};

}  // namespace

std::int64_t RunBudget::max_tokens() const {
    return tokens.value_or(checked_mul(good_passes, data_tokens));
}

SizedRun size_run(const RunSpec& base, const RunBudget& budget, const RunMachine& machine) {
    const RunSizing sizing(base, budget, machine);
    const auto sizes = model_sizes();
    // If a size is refused, so are all larger ones.
    const auto refused = std::partition_point(
        sizes.begin(), sizes.end(),
        [&](const ModelSize& size) { return !sizing.refusal(size).has_value(); });
    auto run = sizing.train(refused == sizes.begin() ? *refused : *(refused - 1));
    if (!run) {
        fail(ExitCode::usage, "not even the smallest model fits on ", machine.target.world_size,
             " ranks of ", machine.hardware.name, "; use other --ranks or --hardware");
    }
    if (refused != sizes.end()) run->limit = *sizing.refusal(*refused);
    return *run;
}

}  // namespace gptrain
