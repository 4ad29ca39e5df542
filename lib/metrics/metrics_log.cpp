#include "metrics/metrics_log.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace gptrain {
namespace {

/// True if a crash may have left this at the end of the file: the start of one of our lines, or
/// zeros if the disk lost data already counted in the file's size.
bool is_torn(std::string_view last_line) {
    if (last_line.find('\0') != std::string_view::npos) return true;
    return last_line.starts_with('{') && !last_line.ends_with('\n');
}

std::string_view last_line_of(std::string_view lines) {
    if (lines.empty()) return {};
    const auto before = lines.substr(0, lines.size() - 1).rfind('\n');
    return before == std::string_view::npos ? lines : lines.substr(before + 1);
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& file, std::function<void()> may_write)
    : may_write_(std::move(may_write)), file_(file, File::Mode::append) {
    require_may_write();
    sync_folder(folder_of(file));
    read_back();
}

MetricsLog::~MetricsLog() {
    try {
        sync();
    } catch (const Error&) {
        // The log is another start's now.
    }
}

void MetricsLog::sync() {
    require_may_write();
    file_.sync();
}

void MetricsLog::finish() {
    require_may_write();
    file_.finish();
}

void MetricsLog::read_back() {
    const MappedFile mapped(file_.path());
    std::string_view lines(reinterpret_cast<const char*>(mapped.bytes().data()),
                           mapped.bytes().size());
    const std::string_view last_line = last_line_of(lines);
    if (is_torn(last_line)) {
        lines.remove_suffix(last_line.size());
        file_.file().truncate(static_cast<std::int64_t>(lines.size()));
    } else if (!last_line.empty() && !last_line.ends_with('\n')) {
        file_.file().write("\n");
    }
    std::int64_t first_unknown = 0;
    std::int64_t unknown = 0;
    for (std::int64_t number = 1; !lines.empty(); ++number) {
        const std::string_view line = lines.substr(0, lines.find('\n'));
        if (const auto read = parse_metrics_line(line)) {
            std::visit([this](const auto& known) { note(known); }, *read);
        } else if (unknown++ == 0) {
            first_unknown = number;
        }
        lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    }
    if (unknown == 0) return;
    warn(file_.path().string(), ", line ", first_unknown, ": not a line of this log",
         unknown > 1 ? text(" (and ", unknown - 1, " later ones)") : "", "; kept but ignored");
}

void MetricsLog::note(const StepMetrics& metrics) {
    if (metrics.goodput.sum() > 0) time_spent_ = metrics.goodput;
}

void MetricsLog::note(const Validation& validation) {
    validations_.insert(validation.step);
}

void MetricsLog::note(const TaskEvaluation& evaluation) {
    task_evaluations_.insert(evaluation.step);
}

void MetricsLog::note(const RunEvent& event) {
    if (event.kind != RunEvent::Kind::resume) return;
    for (std::set<std::int64_t>* steps : {&validations_, &task_evaluations_})
        steps->erase(steps->upper_bound(event.step), steps->end());
}

void MetricsLog::note(const EndOfStart& end) {
    time_spent_ = end.goodput;
}

void MetricsLog::write(const MetricsLine& line) {
    require_may_write();
    const auto write = [this](const auto& known) {
        file_.append(to_text(known) + '\n');
        note(known);
    };
    std::visit(write, line);
}

std::optional<std::int64_t> last_logged_step(const std::filesystem::path& file) {
    constexpr std::size_t most_bytes = std::size_t{1} << 20;
    const MappedFile mapped(file);
    std::string_view lines(reinterpret_cast<const char*>(mapped.bytes().data()),
                           mapped.bytes().size());
    lines.remove_prefix(lines.size() - std::min(lines.size(), most_bytes));
    for (; !lines.empty(); lines.remove_suffix(last_line_of(lines).size())) {
        std::string_view line = last_line_of(lines);
        if (line.ends_with('\n')) line.remove_suffix(1);
        const auto read = parse_metrics_line(line);
        if (!read) continue;
        if (const auto* metrics = std::get_if<StepMetrics>(&*read)) return metrics->step;
        const auto* event = std::get_if<RunEvent>(&*read);
        if (event != nullptr && event->kind == RunEvent::Kind::resume) return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace gptrain
