#include "page/run_log.h"

#include <algorithm>
#include <utility>

#include "base/file.h"

namespace gptrain {
namespace {

constexpr std::size_t read_bytes = std::size_t{4} << 20;
/// No line of gptrain is nearly as long. Of a longer one only the start is kept.
constexpr std::size_t max_line_bytes = std::size_t{1} << 20;

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
    steps.push_back(std::move(metrics));
}

void RunLog::add(const Validation& validation) {
    while (!validations.empty() && validations.back().step >= validation.step)
        validations.pop_back();
    validations.push_back(validation);
}

void RunLog::add(RunEvent event) {
    if (event.kind == RunEvent::Kind::resume) {
        // As a double: there may be no integer after it.
        undo_from(static_cast<double>(event.step) + 1);
        while (!validations.empty() && validations.back().step > event.step)
            validations.pop_back();
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
