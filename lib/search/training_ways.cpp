#include "search/training_ways.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/join.h"
#include "engine/measure.h"
#include "engine/memory_check.h"
#include "search/table_text.h"
#include "spec/fit_advice.h"

namespace gptrain {
namespace {

constexpr std::int64_t adapter_rank = 16;

void adapt(RunSpec& spec) {
    AdapterSpec& adapter = spec.adapter.emplace();
    adapter.rank = adapter_rank;
    adapter.alpha = 2 * adapter_rank;
    adapter.targets = {LinearName::attn_q, LinearName::attn_k, LinearName::attn_v,
                       LinearName::attn_proj};
    if (!spec.model.experts) {
        adapter.targets.insert(adapter.targets.end(), {LinearName::mlp_fc, LinearName::mlp_proj});
        if (gated(spec.model.activation)) adapter.targets.push_back(LinearName::mlp_gate);
    }
}

constexpr auto ways = std::to_array<TrainingWay>({
    {"full", "all weights", [](RunSpec&) {}},
    {"full-8bit", "all weights, moments in 8 bits",
     [](RunSpec& spec) { spec.optimizer.state = MomentFormat::eight_bit; }},
    {"full-bf16", "all weights in bf16, moments in 8 bits",
     [](RunSpec& spec) {
         spec.optimizer.state = MomentFormat::eight_bit;
         spec.precision.main_weights = Precision::bf16;
     }},
    {"full-offload", "all weights, state in host memory",
     [](RunSpec& spec) { spec.offload = {.optimizer = true, .main_weights = true}; }},
    {"lora", "LoRA", adapt},
    {"qlora", "QLoRA: LoRA on weights in 4 bits",
     [](RunSpec& spec) {
         adapt(spec);
         spec.precision.frozen = FrozenWeights::nf4;
         spec.precision.nf4_double = true;
     }},
});

class WayTrial {
public:
    WayTrial(const TrainingWay& way, const RunSpec& base, const WayMachine& machine)
        : machine_(machine) {
        outcome_.way = &way;
        outcome_.spec = base;
        way.apply(outcome_.spec);
    }

    WayOutcome run() {
        if (const std::string refusal = refusal_of(outcome_.spec); !refusal.empty()) {
            outcome_.refused = refusal;
            return outcome_;
        }
        const Fit fit = find_fastest();
        // A save that waits writes from the device's memory, without a copy of the state on the
        // host.
        if (fit == Fit::device_only && outcome_.spec.checkpoint.async) {
            outcome_.spec.checkpoint.async = false;
            find_fastest();
        }
        find_longest();
        return outcome_;
    }

private:
    enum class Fit { nowhere, device_only, everywhere };

    SearchContext context_of(const RunSpec& spec) const {
        return {.spec = spec,
                .target = machine_.target,
                .needs = machine_.needs,
                .hardware = machine_.hardware,
                .capacity = machine_.capacity};
    }

    /// Why the program refuses the spec; empty if it takes it.
    std::string refusal_of(const RunSpec& spec) const {
        try {
            make_plan(spec, machine_.target);
            return "";
        } catch (const Error& error) {
            if (error.code() != ExitCode::usage) throw;
            return error.what();
        }
    }

    /// The settings that take the least memory.
    static RunSpec smallest(RunSpec spec, std::int64_t ranks, std::int64_t seq_length) {
        spec.training.seq_length = seq_length;
        spec.training.micro_batch_size = 1;
        spec.training.global_batch_size = ranks;
        spec.recompute = Recompute::full;
        return spec;
    }

    bool host_fits(std::int64_t bytes) const {
        const auto share = machine_.host_share();
        return !share || static_cast<double>(bytes) <= *share;
    }

    Fit find_fastest() {
        const RunSpec spec = outcome_.spec;
        const SearchContext context = context_of(spec);
        const SearchResult result = search(context, whole_space(spec), 1);
        if (result.best.empty()) {
            // Gathered where they are used, weights take the least memory of each rank.
            RunSpec divided = spec;
            divided.parallel.shard = Sharded::weights;
            if (machine_.target.world_size > 1 && refusal_of(divided).empty())
                outcome_.spec = divided;
            const RunSpec least =
                smallest(outcome_.spec, machine_.target.world_size, spec.training.seq_length);
            const RunPlan plan = make_plan(least, machine_.target);
            outcome_.host_bytes = host_bytes_of(plan);
            outcome_.bytes = ends_memory(context_of(least), plan);
            return Fit::nowhere;
        }
        const Found& best = result.best.front();
        outcome_.bytes = best.required_bytes;
        outcome_.host_bytes = host_bytes_of(best.plan);
        if (!host_fits(outcome_.host_bytes)) return Fit::device_only;
        outcome_.fastest = best;
        outcome_.spec = with_choices(spec, best.choices);
        return Fit::everywhere;
    }

    std::int64_t host_bytes_of(const RunPlan& plan) const {
        if (!machine_.target.cuda) return 0;  // device memory is host memory
        return host_bytes(measure_memory(plan, {}, machine_.needs), false);
    }

    void find_longest() {
        const auto fits = [&](std::int64_t steps) {
            const RunSpec spec =
                smallest(outcome_.spec, machine_.target.world_size, steps * sequence_step);
            const RunPlan plan = make_plan(spec, machine_.target);
            return static_cast<double>(ends_memory(context_of(spec), plan)) <= machine_.capacity &&
                   host_fits(host_bytes_of(plan));
        };
        const std::int64_t most =
            outcome_.spec.model.max_position_embeddings.value_or(outcome_.spec.training.seq_length);
        outcome_.longest = sequence_step * largest_that_fits(1, most / sequence_step, fits);
    }

    const WayMachine& machine_;
    WayOutcome outcome_;
};

constexpr auto table_widths = std::to_array<std::size_t>({9, 9, 9, 9, 10, 4});

std::string bytes_or_dash(std::int64_t bytes) {
    return bytes == 0 ? "-" : gib(static_cast<double>(bytes));
}

/// The settings that were chosen for it, or why it cannot be used.
std::string remark(const WayOutcome& outcome, const WayMachine& machine) {
    if (!outcome.refused.empty()) return outcome.refused;
    if (outcome.fastest) {
        const Choices& choices = outcome.fastest->choices;
        return text("recompute ", name_of(choices.recompute),
                    choices.parallel.shard >= Sharded::gradients
                        ? text(", shard ", name_of(choices.parallel.shard))
                        : "",
                    outcome.spec.checkpoint.async ? "" : ", checkpoint.async false");
    }
    if (static_cast<double>(outcome.bytes) > machine.capacity)
        return text("needs more than ", gib(machine.capacity), " GiB");
    return text("needs more host memory than ", gib(*machine.host_share()), " GiB a rank");
}

std::string row_of(const WayOutcome& outcome, const WayMachine& machine) {
    std::array<std::string, table_widths.size()> cells = {"-", "-", "-", "-", "-", "-"};
    if (outcome.refused.empty()) {
        cells[0] = bytes_or_dash(outcome.bytes);
        cells[1] = bytes_or_dash(outcome.host_bytes);
        if (outcome.fastest) {
            const StepEstimate& estimate = outcome.fastest->estimate;
            cells[2] = plain_seconds(estimate.step.seconds);
            cells[3] = fixed(estimate.tokens_per_second, 0);
            cells[5] = text(outcome.fastest->choices.micro_batch_size);
        }
        if (outcome.longest > 0) cells[4] = text(outcome.longest);
    }
    return text(padded_right(outcome.way->word, 14),
                row_of_cells(cells, table_widths,
                             text(outcome.way->words, "; ", remark(outcome, machine))));
}

}  // namespace

std::optional<double> WayMachine::host_share() const {
    if (host_capacity == 0) return std::nullopt;
    const std::int64_t ranks = std::min(target.world_size, hardware.node.devices);
    return host_capacity / static_cast<double>(ranks);
}

std::span<const TrainingWay> training_ways() {
    return ways;
}

std::string way_words() {
    std::vector<std::string> words;
    for (const TrainingWay& way : ways)
        words.emplace_back(way.word);
    return joined(words);
}

const TrainingWay* find_way(std::string_view word) {
    const auto* found = std::find_if(ways.begin(), ways.end(),
                                     [&](const TrainingWay& way) { return way.word == word; });
    return found == ways.end() ? nullptr : found;
}

WayOutcome try_way(const TrainingWay& way, const RunSpec& base, const WayMachine& machine) {
    return WayTrial(way, base, machine).run();
}

std::string to_text(std::span<const WayOutcome> outcomes, const WayMachine& machine) {
    constexpr auto heads =
        std::to_array<std::string_view>({"GiB", "host GiB", "step s", "tokens/s", "longest", "mb"});
    std::string line = padded_right("way", 14);
    for (std::size_t i = 0; i < heads.size(); ++i)
        line += padded_left(heads[i], table_widths[i]);
    line += "\n";
    for (const WayOutcome& outcome : outcomes)
        line += row_of(outcome, machine);
    return line;
}

}  // namespace gptrain
