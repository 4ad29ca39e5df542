#include "report/figures.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "spec/model_cost.h"

namespace gptrain {
namespace {

/// "5.87 M", and in full "5,868,800 parameters".
Figure count_figure(std::string_view name, std::int64_t count, std::string_view word) {
    std::string value = human_count(static_cast<double>(count));
    if (value.ends_with(' ')) value = text(count);
    return {std::string(name), value, text(grouped(count), ' ', word)};
}

void add_steps(std::vector<Figure>& figures, const ReportedRun& run) {
    const std::int64_t step = run.log.steps.back().step;
    Figure figure = {"steps", grouped(step)};
    if (run.spec) figure.detail = text("of ", grouped(run.spec->training.steps));
    figures.push_back(figure);
}

void add_validation(std::vector<Figure>& figures, const RunLog& log) {
    const Validation* best = nullptr;
    const Validation* last = nullptr;
    for (const Validation& each : log.validations) {
        if (!each.val_loss) continue;
        if (best == nullptr || *each.val_loss < *best->val_loss) best = &each;
        last = &each;
    }
    if (last == nullptr) return;
    Figure figure = {"validation loss", loss_text(*last->val_loss),
                     text("perplexity ", significant(std::exp(*last->val_loss), 4))};
    if (best != last) {
        figure.detail +=
            text("; best ", loss_text(*best->val_loss), " at step ", grouped(best->step));
    }
    figures.push_back(figure);
}

void add_speed(std::vector<Figure>& figures, const RunLog& log) {
    const auto tokens = median(log, metric(&StepMetrics::tokens_per_s));
    const auto seconds = median(log, metric(&StepMetrics::step_time_s));
    if (tokens) {
        figures.push_back(
            {"throughput", speed_text(*tokens),
             seconds ? text(significant(*seconds, 3), " s a step, median") : "median"});
    }
    const auto tflops = median(log, metric(&StepMetrics::tflops_per_device));
    if (tflops) figures.push_back({"speed of a device", text(significant(*tflops, 3), " TFLOP/s")});
}

void add_time(std::vector<Figure>& figures, const TimeSpent& spent) {
    if (spent.sum() <= 0) return;
    figures.push_back({"running time", seconds_text(spent.sum()),
                       text("goodput ", fixed(100 * spent.goodput(), 1), " %")});
}

void add_events(std::vector<Figure>& figures, const RunLog& log) {
    std::int64_t restarts = 0;
    std::int64_t faults = 0;
    for (const RunEvent& event : log.events) {
        if (event.kind == RunEvent::Kind::resume && !event.rolled_back_from) ++restarts;
        if (is_fault(event)) ++faults;
    }
    std::int64_t redone = 0;
    for (const auto& stretch : log.undone)
        redone += std::ssize(stretch);
    std::string detail;
    if (redone > 0) detail = text(counted(redone, "logged step"), " done again");
    figures.push_back({"restarts", grouped(restarts), detail});
    figures.push_back({"faults", grouped(faults), ""});
}

}  // namespace

std::optional<double> median(const RunLog& log, const Metric& metric) {
    std::vector<double> values;
    for (const StepMetrics& step : log.steps) {
        if (const auto value = metric(step)) values.push_back(*value);
    }
    if (values.empty()) return std::nullopt;
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::string loss_text(double loss) {
    return fixed(loss, 4);
}

std::string speed_text(double tokens_per_s) {
    constexpr double largest = 1e15;
    return std::fabs(tokens_per_s) < largest ? text(grouped(std::llround(tokens_per_s)), " tok/s")
                                             : text(significant(tokens_per_s, 4), " tok/s");
}

std::string seconds_text(double seconds) {
    return seconds < 10 ? text(significant(seconds, 3), " s") : human_time(seconds);
}

std::string describe(const RunEvent& event) {
    switch (event.kind) {
        case RunEvent::Kind::resume:
            if (!event.rolled_back_from) return "resumed after this step";
            return text("rolled back to this step after the loss spike of step ",
                        *event.rolled_back_from);
        case RunEvent::Kind::data:
            return event.consumed_samples
                       ? text("other data from sample ", *event.consumed_samples, " on")
                       : "other data";
        case RunEvent::Kind::skip: return text("update skipped: ", event.reason);
        case RunEvent::Kind::save_failed: return text("save failed: ", event.reason);
    }
    return "";
}

bool is_fault(const RunEvent& event) {
    return event.kind == RunEvent::Kind::skip || event.kind == RunEvent::Kind::save_failed ||
           event.rolled_back_from;
}

std::vector<Figure> figures_of(const ReportedRun& run) {
    std::vector<Figure> figures;
    if (run.planned) {
        figures.push_back(
            count_figure("model", parameter_count(run.planned->plan.model), "parameters"));
    }
    if (run.log.steps.empty()) return figures;
    const StepMetrics& last = run.log.steps.back();
    add_steps(figures, run);
    const auto loss = last.mean_loss ? last.mean_loss : last.loss;
    if (loss) figures.push_back({"training loss", loss_text(*loss), "nats per token"});
    add_validation(figures, run.log);
    if (last.consumed_tokens)
        figures.push_back(count_figure("data read", *last.consumed_tokens, "tokens"));
    add_speed(figures, run.log);
    if (last.memory_bytes) figures.push_back({"memory", human_bytes(*last.memory_bytes), "a rank"});
    add_time(figures, run.log.time_spent);
    add_events(figures, run.log);
    return figures;
}

}  // namespace gptrain
