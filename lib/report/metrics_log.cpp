#include "report/metrics_log.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

namespace gptrain {
namespace {

void append_name(std::string& line, std::string_view name) {
    line += text(line.empty() ? "{" : ", ", "\"", name, "\": ");
}

void append_member(std::string& line, std::string_view name, const auto& value) {
    append_name(line, name);
    if (!value || !std::isfinite(static_cast<double>(*value))) {
        line += "null";
    } else {
        append(line, *value);
    }
}

std::string object_of(const TimeSpent& spent) {
    std::string object;
    for (const TimePart& part : time_parts)
        append_member(object, part.name, std::optional(spent.*part.seconds));
    return object + "}";
}

std::string object_of(const CommMetric& metric) {
    std::string object;
    append_member(object, "bytes", std::optional(metric.bytes));
    append_member(object, "seconds", metric.seconds);
    return object + "}";
}

std::string object_of(const std::vector<CommMetric>& metrics) {
    std::string object;
    for (const CommMetric& metric : metrics) {
        append_name(object, metric.axis);
        object += object_of(metric);
    }
    return object.empty() ? "{}" : object + "}";
}

std::string line_of(const StepMetrics& metrics) {
    std::string line;
    append_member(line, "step", std::optional(metrics.step));
    for_each_metric(metrics, [&](std::string_view name, const auto& value) {
        append_member(line, name, value);
    });
    append_name(line, "comm");
    line += object_of(metrics.comm);
    append_name(line, "goodput");
    return line + object_of(metrics.goodput) + "}\n";
}

std::string validation_line(std::int64_t step, double val_loss) {
    std::string line;
    append_member(line, "step", std::optional(step));
    append_member(line, "val_loss", std::optional(val_loss));
    return line + "}\n";
}

/// What the log needs of a line that it reads back.
struct Entry {
    enum class Kind { step, validation, resume, data } kind;
    std::int64_t step;
    std::optional<TimeSpent> spent = {};
};

/// A line that is not of the four kinds is an Error (bad_input).
Entry parse_entry(std::string_view line) {
    const Json json = parse_json(line, "line");
    const JsonReader reader(json, "line");
    const std::int64_t step = reader.integer("step");
    if (reader.has("event")) {
        const std::string& event = reader.string("event");
        if (event == "data") return {Entry::Kind::data, step};
        if (event != "resume") fail(ExitCode::bad_input, "unknown event");
        return {Entry::Kind::resume, step};
    }
    if (reader.has("val_loss")) return {Entry::Kind::validation, step};
    if (!reader.has("goodput")) return {Entry::Kind::step, step};
    return {Entry::Kind::step, step, time_spent(reader.object("goodput"), "goodput")};
}

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

MetricsLog::MetricsLog(const std::filesystem::path& file) : file_(file, File::Mode::append) {
    sync_folder(file.has_parent_path() ? file.parent_path() : ".");
    read_back();
}

MetricsLog::~MetricsLog() {
    try {
        sync();
    } catch (const Error& error) {
        warn(error.what());
    }
}

void MetricsLog::read_back() {
    const MappedFile mapped(file_.path());
    std::string_view lines(reinterpret_cast<const char*>(mapped.bytes().data()),
                           mapped.bytes().size());
    const std::string_view last_line = last_line_of(lines);
    if (is_torn(last_line)) {
        lines.remove_suffix(last_line.size());
        file_.truncate(static_cast<std::int64_t>(lines.size()));
    } else if (!last_line.empty() && !last_line.ends_with('\n')) {
        file_.write("\n");
    }
    std::int64_t first_unknown = 0;
    std::int64_t unknown = 0;
    for (std::int64_t number = 1; !lines.empty(); ++number) {
        const std::string_view line = lines.substr(0, lines.find('\n'));
        if (!read_line(line) && unknown++ == 0) first_unknown = number;
        lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    }
    if (unknown == 0) return;
    warn(file_.path().string(), ", line ", first_unknown, ": not a line of this log",
         unknown > 1 ? text(" (and ", unknown - 1, " later ones)") : "", "; kept but ignored");
}

bool MetricsLog::read_line(std::string_view line) {
    try {
        const Entry entry = parse_entry(line);
        if (entry.kind == Entry::Kind::validation) validations_.insert(entry.step);
        if (entry.spent) time_spent_ = entry.spent;
        if (entry.kind == Entry::Kind::resume) undo_after(entry.step);
        return true;
    } catch (const Error&) {
        return false;
    }
}

void MetricsLog::undo_after(std::int64_t step) {
    validations_.erase(validations_.upper_bound(step), validations_.end());
}

void MetricsLog::write_step(const StepMetrics& metrics) {
    file_.write(line_of(metrics));
}

void MetricsLog::write_validation(std::int64_t step, double val_loss) {
    file_.write(validation_line(step, val_loss));
    validations_.insert(step);
}

void MetricsLog::write_resume(std::int64_t step) {
    file_.write(text("{\"event\": \"resume\", \"step\": ", step, "}\n"));
    undo_after(step);
}

void MetricsLog::write_data_change(std::int64_t step, std::int64_t consumed_samples) {
    file_.write(text("{\"event\": \"data\", \"step\": ", step,
                     ", \"consumed_samples\": ", consumed_samples, "}\n"));
}

}  // namespace gptrain
