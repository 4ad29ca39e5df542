#include "search/search_report.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/join.h"
#include "base/text.h"
#include "hardware/message_time.h"
#include "planner/step_prices.h"
#include "search/table_text.h"

namespace gptrain {
namespace {

/// "8 sp+": tp ranks, with sequence parallelism, and linear layers in pieces (overlap_tensor).
std::string tensor_of(const Choices& choices) {
    const ParallelSpec& parallel = choices.parallel;
    if (!parallel.sequence_parallel || parallel.tensor == 1) return text(parallel.tensor);
    return text(parallel.tensor, parallel.overlap_tensor == OverlapTensor::on ? " sp+" : " sp");
}

/// "2 r": cp ranks and the method.
std::string context_of(const Choices& choices) {
    const ParallelSpec& parallel = choices.parallel;
    if (parallel.context == 1) return "1";
    return text(parallel.context,
                parallel.context_method == ContextMethod::ring ? " ring" : " all");
}

/// "64 e8": dp ranks, and how many ranks divide the experts.
std::string data_of(const Found& found) {
    const std::int64_t expert = found.choices.parallel.expert;
    return text(found.plan.mesh.data, expert > 1 ? text(" e", expert) : "");
}

std::string table_head() {
    return text(padded_left("#", 3), padded_left("step s", 9), padded_left("MFU %", 6),
                padded_left("days", 8), padded_left("GiB", 6), padded_left("tp", 7),
                padded_left("pp", 4), padded_left("v", 4), padded_left("cp", 7),
                padded_left("dp", 6), padded_left("mb", 4), "  ", padded_right("recompute", 10),
                padded_right("schedule", 17), "loses\n");
}

std::string table_row(std::string_view number, const Found& found) {
    const Choices& choices = found.choices;
    const StepEstimate& estimate = found.estimate;
    return text(
        padded_left(number, 3), padded_left(plain_seconds(estimate.step.seconds), 9),
        padded_left(fixed(100 * estimate.mfu, 1), 6), padded_left(decimals(estimate.days, 2), 8),
        padded_left(gib(static_cast<double>(found.required_bytes)), 6),
        padded_left(tensor_of(choices), 7), padded_left(text(choices.parallel.pipeline), 4),
        padded_left(text(choices.parallel.virtual_stages), 4), padded_left(context_of(choices), 7),
        padded_left(data_of(found), 6), padded_left(text(choices.micro_batch_size), 4), "  ",
        padded_right(name_of(choices.recompute), 10),
        padded_right(name_of(choices.parallel.schedule), 17), largest_loss(estimate.step), "\n");
}

/// "1 6x2 1": a split of layers, in which three or more equal numbers are counted.
std::string split_text(const std::vector<std::int64_t>& split) {
    std::string out;
    for (std::size_t i = 0; i < split.size();) {
        std::size_t end = i;
        while (end < split.size() && split[end] == split[i])
            ++end;
        const std::size_t equal = end - i < 3 ? 1 : end - i;
        out += text(out.empty() ? "" : " ", equal > 1 ? text(equal, 'x') : "", split[i]);
        i += equal;
    }
    return out;
}

/// "optimizer, main_weights": what is in host memory.
std::string words_of_offload(const OffloadSpec& offload) {
    std::vector<std::string> words;
    if (offload.optimizer) words.emplace_back("optimizer");
    if (offload.main_weights) words.emplace_back("main_weights");
    if (offload.activations != OffloadedActivations::off) words.emplace_back("activations");
    return joined(words, " + ");
}

/// The settings that the table has no column for.
std::string other_settings(const Found& found, bool batches_differ) {
    const Choices& choices = found.choices;
    std::string settings;
    const auto add = [&](const auto&... parts) {
        settings += text(settings.empty() ? "" : ", ", parts...);
    };
    if (batches_differ) add("global_batch_size ", choices.global_batch_size);
    if (choices.parallel.layers) add("layers ", split_text(*choices.parallel.layers));
    if (choices.parallel.shard != Sharded::optimizer)
        add("shard ", name_of(choices.parallel.shard));
    if (choices.parallel.shard_ranks) add("shard_ranks ", *choices.parallel.shard_ranks);
    const std::string offloaded = words_of_offload(choices.offload);
    if (!offloaded.empty()) add("offload ", offloaded);
    return settings;
}

/// The same settings other than those of the table on one line each: "1, 3: layers 4 4".
std::string notes(const std::vector<Found>& best, bool batches_differ) {
    std::vector<std::pair<std::string, std::string>> by_settings;
    for (std::size_t i = 0; i < best.size(); ++i) {
        const std::string settings = other_settings(best[i], batches_differ);
        if (settings.empty()) continue;
        const auto known = std::find_if(by_settings.begin(), by_settings.end(),
                                        [&](const auto& note) { return note.first == settings; });
        if (known == by_settings.end()) {
            by_settings.emplace_back(settings, text(i + 1));
        } else {
            known->second += text(", ", i + 1);
        }
    }
    std::string lines;
    for (const auto& [settings, numbers] : by_settings)
        lines += text("  # ", numbers, ": ", settings, "\n");
    return lines;
}

/// "311,245", "0.31".
std::string whole(double value) {
    return value < 0.5 ? decimals(value, 0) : grouped(std::llround(value));
}

std::string totals(const Found& best) {
    const StepEstimate& estimate = best.estimate;
    return text(
        "the fastest: ", human_count(estimate.tokens_per_second), "tokens per second, ",
        whole(estimate.device_hours), " device-hours for ", counted(best.plan.steps, "step"),
        estimate.cost > 0 ? text(", cost ", whole(estimate.cost)) : "",
        estimate.megawatt_hours > 0 ? text(", ", decimals(estimate.megawatt_hours, 1), " MWh") : "",
        "\n");
}

std::string corner_lines(const SearchResult& result, bool batches_differ) {
    std::string lines;
    for (std::size_t i = 0; i < memory_corners.size(); ++i) {
        const std::string title =
            text("the fastest within ", fixed(100 * memory_corners[i], 0), " % of the memory: ");
        const auto& found = result.corners[i];
        lines += title;
        if (!found) {
            lines += "none fits\n";
            continue;
        }
        lines += text(plain_seconds(found->estimate.step.seconds), " s, ",
                      gib(static_cast<double>(found->required_bytes)),
                      " GiB: ", describe_fully(*found, batches_differ), "\n");
    }
    return lines;
}

/// The two largest extra times of the slower step, the larger first. Leaves out times below 1 % of
/// the steps' difference.
std::string comparison(const StepTime& slower, const StepTime& faster) {
    std::array<Spent, spent_kinds> kinds{};
    for (int i = 0; i < spent_kinds; ++i)
        kinds[static_cast<std::size_t>(i)] = static_cast<Spent>(i);
    const auto more = [&](Spent kind) { return slower[kind] - faster[kind]; };
    std::stable_sort(kinds.begin(), kinds.end(),
                     [&](Spent a, Spent b) { return more(a) > more(b); });
    std::string out;
    for (const Spent kind : {kinds[0], kinds[1]}) {
        if (more(kind) < 0.01 * (slower.seconds - faster.seconds)) continue;
        out += text(out.empty() ? ":\n  " : ", ", name_of(kind), ' ', plain_seconds(slower[kind]),
                    " s in place of ", plain_seconds(faster[kind]), " s");
    }
    return out;
}

/// True if some group of so many ranks of tp is on several nodes.
bool leaves_node(std::string_view tensor, const SearchContext& context) {
    const std::int64_t ranks = context.target.world_size;
    const std::int64_t size = parse_int(tensor).value_or(1);
    const MeshShape mesh = {.data = ranks / size, .tensor = size};
    return group_layout(Axis::tp, mesh, ranks_per_node(context.hardware, ranks)).nodes() > 1;
}

std::string own_line(const SearchReport& report, const SearchContext& context) {
    const std::string title = "this spec's own settings: ";
    if (!report.own.found) return text(title, report.own.refused, "\n");
    const Found& own = *report.own.found;
    const std::vector<Found>& best = report.result.best;
    const bool batches_differ = report.global_batches.size() > 1;
    const std::string time =
        text(plain_seconds(own.estimate.step.seconds), " s, ",
             gib(static_cast<double>(own.required_bytes)), " GiB",
             batches_differ ? text(" with global_batch_size ", own.choices.global_batch_size) : "");
    if (static_cast<double>(own.required_bytes) > context.capacity)
        return text(title, time, ", which does not fit in ", gib(context.capacity), " GiB\n");
    for (std::size_t i = 0; i < best.size(); ++i) {
        if (best[i].plan.chunk_layers == own.plan.chunk_layers &&
            best[i].estimate.step.seconds == own.estimate.step.seconds)
            return text(title, time, ", number ", i + 1, "\n");
    }
    if (best.empty()) return text(title, time, "\n");
    const double ratio = own.seconds_per_sample() / best.front().seconds_per_sample();
    // A limited search may leave out faster settings, and steps of other batches do other work.
    const bool comparable =
        ratio > 1 && own.choices.global_batch_size == best.front().choices.global_batch_size;
    return text(title, time, ", ", fixed(ratio, 2), "x the time of the fastest",
                batches_differ ? " per sequence" : "",
                comparable ? comparison(own.estimate.step, best.front().estimate.step) : "", "\n");
}

}  // namespace

std::string largest_loss(const StepTime& step) {
    auto largest = Spent::other;
    for (int i = 0; i < spent_kinds; ++i) {
        const auto kind = static_cast<Spent>(i);
        if (kind == Spent::gemms || kind == Spent::attention) continue;
        if (step[kind] > step[largest]) largest = kind;
    }
    return text(name_of(largest), " ", fixed(100 * step[largest] / step.seconds, 0), " %");
}

std::string describe(const Found& found) {
    const Choices& choices = found.choices;
    const ParallelSpec& parallel = choices.parallel;
    return text("tp ", tensor_of(choices), ", pp ", parallel.pipeline,
                parallel.virtual_stages > 1 ? text(" x ", parallel.virtual_stages) : "", ", ",
                parallel.context > 1 ? text("cp ", context_of(choices), ", ") : "", "dp ",
                found.plan.mesh.data,
                parallel.expert > 1 ? text(", experts ", parallel.expert) : "", ", mb ",
                choices.micro_batch_size, ", ", name_of(choices.recompute), ", ",
                name_of(parallel.schedule));
}

std::string describe_fully(const Found& found, bool batches_differ) {
    const std::string others = other_settings(found, batches_differ);
    return text(describe(found), others.empty() ? "" : ", ", others);
}

std::string scaling_head() {
    return text(padded_left("ranks", 7), padded_left("step s", 9), padded_left("tokens/s", 10),
                padded_left("MFU %", 6), padded_left("days", 8), padded_left("GiB", 6),
                "  settings");
}

std::string scaling_row(const SearchResult& result, const SearchContext& context,
                        bool batches_differ) {
    const std::int64_t ranks = context.target.world_size;
    if (result.best.empty())
        return text(padded_left(text(ranks), 7), "  ", why_nothing(result, context));
    const Found* best = &result.best.front();
    const StepEstimate& estimate = best->estimate;
    return text(padded_left(text(ranks), 7), padded_left(plain_seconds(estimate.step.seconds), 9),
                padded_left(human_count(estimate.tokens_per_second), 10),
                padded_left(fixed(100 * estimate.mfu, 1), 6),
                padded_left(decimals(estimate.days, 2), 8),
                padded_left(gib(static_cast<double>(best->required_bytes)), 6), "  ",
                describe_fully(*best, batches_differ));
}

std::vector<LeftOut> left_out(const SearchResult& result, const SearchContext& context) {
    std::vector<LeftOut> lines;
    const double fastest = result.best.empty() ? 0 : result.best.front().seconds_per_sample();
    for (const auto& [value, outcome] : result.outcomes) {
        if (outcome.among_best) continue;
        LeftOut line = {.key = value.first, .values = value.second, .reason = {}};
        if (outcome.fits && fastest > 0) {
            line.reason =
                text("at least ", fixed(outcome.bound / fastest, 2), "x the time of the fastest");
        } else if (outcome.allowed) {
            line.reason = text("needs at least ", gib(outcome.least_bytes), " GiB of ",
                               gib(context.capacity), " GiB");
        } else {
            line.reason = outcome.rule.substr(0, outcome.rule.find(';'));
        }
        if (value.first == "tensor" && outcome.allowed && leaves_node(value.second, context))
            line.reason += ", leaves the node";
        // A rule's text contains the value, but its first word is the key, which all values share.
        const std::string same_reason =
            outcome.allowed ? line.reason : line.reason.substr(0, line.reason.find(' '));
        const auto same = std::find_if(lines.begin(), lines.end(), [&](const LeftOut& other) {
            return other.key == line.key && other.reason.starts_with(same_reason);
        });
        if (same != lines.end()) {
            same->values += text(", ", line.values);
        } else {
            lines.push_back(std::move(line));
        }
    }
    std::stable_sort(lines.begin(), lines.end(),
                     [](const LeftOut& a, const LeftOut& b) { return a.key < b.key; });
    return lines;
}

namespace {

std::string left_out_lines(const SearchResult& result, const SearchContext& context,
                           std::string_view head) {
    std::string out;
    for (const LeftOut& each : left_out(result, context)) {
        out +=
            text("  ", padded_right(text(each.key, " ", each.values), 26), " ", each.reason, "\n");
    }
    return out.empty() ? out : text(head, out);
}

}  // namespace

std::string why_nothing(const SearchResult& result, const SearchContext& context) {
    const std::string ranks = counted(context.target.world_size, "rank");
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [value, outcome] : result.outcomes)
        if (outcome.allowed) least = std::min(least, outcome.least_bytes);
    if (std::isfinite(least)) {
        const double whole = context.hardware.device.memory *
                             share_of_node(context.hardware, context.target.world_size);
        return text(
            "no settings of ", ranks, " fit on ", context.hardware.name,
            ": the smallest needs at least ", gib(least), " GiB of ", gib(context.capacity), " GiB",
            context.capacity < whole ? text(" (", gib(whole), " GiB less --memory-headroom)") : "");
    }
    for (const auto& [value, outcome] : result.outcomes)
        if (!outcome.rule.empty())
            return text("no settings of ", ranks, " are allowed: ", outcome.rule);
    return text("no mesh of ", ranks, " has the values that --fix leaves");
}

std::string to_text(const SearchReport& report, const SearchContext& context) {
    const SearchResult& result = report.result;
    const SearchCounts& counts = result.counts;
    std::string out = text(grouped(counts.candidates + counts.too_large), " candidates for ",
                           grouped(context.target.world_size), " x ", context.hardware.name, ": ",
                           grouped(counts.too_large), " too large, ", grouped(counts.simulated),
                           " simulated in full, the others slower by a bound\n");
    if (result.best.empty())
        return out + own_line(report, context) + left_out_lines(result, context, "why not\n");
    out += table_head();
    for (std::size_t i = 0; i < result.best.size(); ++i)
        out += table_row(text(i + 1), result.best[i]);
    const bool batches_differ = report.global_batches.size() > 1;
    out += notes(result.best, batches_differ);
    out += totals(result.best.front());
    out += corner_lines(result, batches_differ);
    out += own_line(report, context);
    return out + left_out_lines(result, context, "not among the best\n");
}

}  // namespace gptrain
