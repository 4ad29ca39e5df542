#include "task_report.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/output_file.h"
#include "metrics/console.h"
#include "search/table_text.h"

namespace gptrain {
namespace {

/// The results of a task: {"documents":, "few_shot":, "acc":, "acc_stderr":, ...}.
Json json_of(const TaskResult& result) {
    Json json = {{"documents", result.documents.size()}, {"few_shot", result.few_shot}};
    for (const Metric& metric : result.metrics) {
        json[metric.name] = metric.value;
        json[metric.name + "_stderr"] = metric.standard_error;
    }
    return json;
}

/// A line for each metric, in columns that are as wide as their longest cell.
std::string table_of(std::span<const TaskResult> results) {
    using Row = std::array<std::string, 5>;
    std::vector<Row> rows = {{"task", "metric", "documents", "value", "stderr"}};
    for (const TaskResult& result : results) {
        for (const Metric& metric : result.metrics) {
            rows.push_back({result.name, metric.name, text(result.documents.size()),
                            fixed(metric.value, 4), fixed(metric.standard_error, 4)});
        }
    }
    std::array<std::size_t, 5> widths = {};
    for (const Row& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    std::string table;
    for (const Row& row : rows) {
        table += table.empty() ? "" : "\n";
        for (std::size_t i = 0; i < row.size(); ++i) {
            table += i == 0 ? "" : "  ";
            table += i < 2 ? padded_right(row[i], widths[i]) : padded_left(row[i], widths[i]);
        }
    }
    return table;
}

std::string details_of(std::span<const TaskResult> results) {
    std::string lines;
    for (const TaskResult& result : results) {
        for (std::size_t i = 0; i < result.documents.size(); ++i) {
            Json line = {{"task", result.name}, {"document", i}};
            line.update(result.documents[i].details);
            lines += to_line(line) + "\n";
        }
    }
    return lines;
}

}  // namespace

TaskProgress task_progress_bar() {
    using Clock = std::chrono::steady_clock;
    return [begun = Clock::now(), last = std::string()](std::string_view action, std::int64_t done,
                                                        std::int64_t total) mutable {
        if (action != last) {
            last = action;
            begun = Clock::now();
        }
        const double seconds = seconds_since(begun);
        const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
        show_status(progress_bar(action, done, total, left, terminal_columns()));
    };
}

void check_task_files(const TaskReportFiles& files) {
    check_output_file(files.json, "--json");
    check_output_file(files.details, "--details");
}

void report_tasks(std::span<const TaskResult> results, const TaskReportFiles& files) {
    Json json = Json::object();
    for (const TaskResult& result : results)
        json[result.name] = json_of(result);
    print(table_of(results));
    if (!files.json.empty()) write_output_file(files.json, to_document(json));
    if (!files.details.empty()) write_output_file(files.details, details_of(results));
    print(to_line(json));
}

}  // namespace gptrain
