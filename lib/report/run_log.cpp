#include "report/run_log.h"

#include <algorithm>
#include <utility>

#include "base/file.h"

namespace gptrain {
namespace {

constexpr std::size_t read_bytes = std::size_t{4} << 20;
/// No line of gptrain comes near this length. A longer one keeps only its start.
constexpr std::size_t max_line_bytes = std::size_t{1} << 20;

/// Removes the evaluations after `step`.
void undo_after(std::int64_t step, auto& evaluations) {
    while (!evaluations.empty() && evaluations.back().step > step)
        evaluations.pop_back();
}

/// Adds an evaluation, which replaces those of the same and of later steps.
void add_evaluation(auto& evaluations, auto evaluation) {
    undo_after(evaluation.step, evaluations);
    if (!evaluations.empty() && evaluations.back().step == evaluation.step) evaluations.pop_back();
    evaluations.push_back(std::move(evaluation));
}

}  // namespace

void RunLog::add(std::string_view line) {
    auto read = parse_metrics_line(line);
    if (!read) {
        ++unknown_lines;
        return;
    }
    std::visit([this](auto& known) { add(std::move(known)); }, *read);
}

void RunLog::add(StepMetrics metrics) {
    if (!steps.empty() && steps.back().step >= metrics.step)
        undo_from(static_cast<double>(metrics.step));
    if (metrics.goodput.sum() > 0) time_spent = metrics.goodput;
    steps.push_back(std::move(metrics));
}

void RunLog::add(const Validation& validation) {
    add_evaluation(validations, validation);
}

void RunLog::add(TaskEvaluation evaluation) {
    add_evaluation(tasks, std::move(evaluation));
}

void RunLog::add(RunEvent event) {
    if (event.kind == RunEvent::Kind::resume) {
        // As a double: there may be no integer after it.
        undo_from(static_cast<double>(event.step) + 1);
        undo_after(event.step, validations);
        undo_after(event.step, tasks);
    }
    events.push_back(std::move(event));
}

void RunLog::undo_from(double first) {
    auto begin = steps.end();
    while (begin != steps.begin() && static_cast<double>(std::prev(begin)->step) >= first)
        --begin;
    if (begin == steps.end()) return;
    undone.emplace_back(std::make_move_iterator(begin), std::make_move_iterator(steps.end()));
    steps.erase(begin, steps.end());
}

const RunLog& RunLogReader::update() {
    const File file(file_, File::Mode::read);
    const std::int64_t size = file.size();
    if (size < read_) {
        read_ = 0;
        line_.clear();
        log_ = {};
    }
    std::string bytes;
    while (read_ < size) {
        bytes.resize(std::min(read_bytes, static_cast<std::size_t>(size - read_)));
        file.read_at(read_, std::as_writable_bytes(std::span(bytes)));
        read_ += std::ssize(bytes);
        add(bytes);
    }
    return log_;
}

void RunLogReader::add(std::string_view bytes) {
    for (auto end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n')) {
        if (line_.empty()) {
            log_.add(bytes.substr(0, end));
        } else {
            log_.add(line_ += bytes.substr(0, end));
            line_.clear();
        }
        bytes.remove_prefix(end + 1);
    }
    line_ += bytes.substr(0, max_line_bytes - std::min(max_line_bytes, line_.size()));
}

}  // namespace gptrain
