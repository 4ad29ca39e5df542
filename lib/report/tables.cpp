#include "report/tables.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "comm/mesh.h"
#include "spec/spec_json.h"

namespace gptrain {
namespace {

/// A step of the table. Any pointer may be null.
struct Row {
    std::int64_t step;
    const StepMetrics* metrics = nullptr;
    const Validation* validation = nullptr;
    const TaskEvaluation* tasks = nullptr;
};

/// Goes through lines of one kind, whose steps ascend.
template <class Line>
class LineCursor {
public:
    explicit LineCursor(std::span<const Line> lines) : lines_(lines) {}

    bool at_end() const { return lines_.empty(); }
    /// The step of the next line, or `otherwise` if there is none or it comes later.
    std::int64_t earlier(std::int64_t otherwise) const {
        return at_end() ? otherwise : std::min(lines_.front().step, otherwise);
    }
    /// The next line if it is of this step.
    const Line* take(std::int64_t step) {
        if (at_end() || lines_.front().step != step) return nullptr;
        const Line* line = &lines_.front();
        lines_ = lines_.subspan(1);
        return line;
    }

private:
    std::span<const Line> lines_;
};

std::vector<Row> rows_of(const RunLog& log) {
    std::vector<Row> rows;
    LineCursor<StepMetrics> metrics(log.steps);
    LineCursor<Validation> validations(log.validations);
    LineCursor<TaskEvaluation> tasks(log.tasks);
    while (!metrics.at_end() || !validations.at_end() || !tasks.at_end()) {
        const std::int64_t last = std::numeric_limits<std::int64_t>::max();
        const std::int64_t step = metrics.earlier(validations.earlier(tasks.earlier(last)));
        rows.push_back({step, metrics.take(step), validations.take(step), tasks.take(step)});
    }
    return rows;
}

struct TableColumn {
    std::string name;
    /// The cell as JSON; "" if it is unknown.
    std::function<std::string(const Row&)> cell;
};

std::string cell_of(const auto& value) {
    return value && std::isfinite(static_cast<double>(*value)) ? text(*value) : "";
}

const CommMetric* on_axis(const Row& row, std::string_view axis) {
    return row.metrics != nullptr ? find_axis(row.metrics->comm, axis) : nullptr;
}

/// The column of a metric that `visit_all` visits, for_each_metric or for_each_rare_metric.
TableColumn metric_column(std::string_view wanted, const auto& visit_all) {
    return {std::string(wanted), [wanted, visit_all](const Row& row) {
                std::string cell;
                if (row.metrics == nullptr) return cell;
                visit_all(*row.metrics, [&](std::string_view name, const auto& value) {
                    if (name == wanted) cell = cell_of(value);
                });
                return cell;
            }};
}

/// A column for each metric, for a rare one if any run has it.
void add_metrics(std::vector<TableColumn>& columns, std::span<const ReportedRun> runs) {
    const auto all = [](const auto& metrics, const auto& visit) {
        for_each_metric(metrics, visit);
    };
    const auto rare = [](const auto& metrics, const auto& visit) {
        for_each_rare_metric(metrics, visit);
    };
    std::set<std::string_view> known;
    for (const ReportedRun& run : runs) {
        for (const StepMetrics& step : run.log.steps) {
            rare(step, [&](std::string_view name, const auto& value) {
                if (value) known.insert(name);
            });
        }
    }
    all(StepMetrics(), [&](std::string_view name, const auto& /*value*/) {
        columns.push_back(metric_column(name, all));
    });
    rare(StepMetrics(), [&](std::string_view name, const auto& /*value*/) {
        if (known.contains(name)) columns.push_back(metric_column(name, rare));
    });
}

void add_comm(std::vector<TableColumn>& columns, std::span<const ReportedRun> runs) {
    for (const Axis each : reported_axes) {
        const std::string_view axis = name_of(each);
        const auto has_axis = [&](const StepMetrics& metrics) {
            return find_axis(metrics.comm, axis) != nullptr;
        };
        if (std::none_of(runs.begin(), runs.end(), [&](const ReportedRun& run) {
                return std::any_of(run.log.steps.begin(), run.log.steps.end(), has_axis);
            }))
            continue;
        columns.push_back({text("comm.", axis, ".bytes"), [axis](const Row& row) {
                               const CommMetric* comm = on_axis(row, axis);
                               return comm != nullptr ? text(comm->bytes) : "";
                           }});
        columns.push_back({text("comm.", axis, ".seconds"), [axis](const Row& row) {
                               const CommMetric* comm = on_axis(row, axis);
                               return comm != nullptr ? cell_of(comm->seconds) : "";
                           }});
    }
}

/// A column for each number of each measure that any run has in lines of this kind.
template <class Line>
void add_measures(std::vector<TableColumn>& columns, std::span<const ReportedRun> runs,
                  std::vector<Line> RunLog::*lines, const Line* Row::*line,
                  std::string_view prefix) {
    for (const MeasureRow& measure : measure_rows) {
        for (const std::string& label : labels_in(runs, lines, measure)) {
            columns.push_back(
                {path_of(prefix, measure, label, '.'), [line, &measure, label](const Row& row) {
                     if (row.*line == nullptr) return std::string();
                     const auto* found = find_number((row.*line)->measures, measure, label);
                     return found ? cell_of(std::optional(found->value.mean())) : "";
                 }});
        }
    }
}

/// A column for each metric of each task that any run has measured while it trained.
void add_tasks(std::vector<TableColumn>& columns, std::span<const ReportedRun> runs) {
    std::set<std::pair<std::string, std::string>> seen;
    for (const ReportedRun& run : runs) {
        for (const TaskEvaluation& evaluation : run.log.tasks) {
            for (const TaskMetric& metric : evaluation.metrics) {
                if (!seen.emplace(metric.task, metric.metric).second) continue;
                columns.push_back({text("tasks.", metric.task, ".", metric.metric),
                                   [task = metric.task, name = metric.metric](const Row& row) {
                                       if (row.tasks == nullptr) return std::string();
                                       const TaskMetric* found =
                                           find_metric(row.tasks->metrics, task, name);
                                       return found ? cell_of(std::optional(found->value)) : "";
                                   }});
            }
        }
    }
}

std::vector<TableColumn> columns_of(std::span<const ReportedRun> runs) {
    std::vector<TableColumn> columns = {{"step", [](const Row& row) { return text(row.step); }}};
    add_metrics(columns, runs);
    add_measures(columns, runs, &RunLog::steps, &Row::metrics, "");
    columns.push_back({"val_loss", [](const Row& row) {
                           return row.validation != nullptr ? cell_of(row.validation->val_loss)
                                                            : "";
                       }});
    add_measures(columns, runs, &RunLog::validations, &Row::validation, validation_prefix);
    add_tasks(columns, runs);
    add_comm(columns, runs);
    for (const TimePart& part : time_parts) {
        columns.push_back({text("goodput.", part.name), [&part](const Row& row) {
                               const bool known =
                                   row.metrics != nullptr && row.metrics->goodput.sum() > 0;
                               return known ? text(row.metrics->goodput.*part.seconds) : "";
                           }});
    }
    return columns;
}

std::string csv_quoted(std::string_view cell) {
    if (cell.find_first_of(",\"\r\n") == cell.npos) return std::string(cell);
    std::string out = "\"";
    for (const char c : cell)
        out += c == '"' ? "\"\"" : std::string(1, c);
    return out + '"';
}

Json events_of(const RunLog& log) {
    Json events = Json::array();
    for (const RunEvent& event : log.events)
        events.push_back(parse_json(to_text(event), "event"));
    return events;
}

Json tasks_of(const ReportedRun& run) {
    Json tasks = Json::object();
    for (const TaskMetric& result : run.tasks)
        tasks[result.task][result.metric] = result.value;
    return tasks;
}

}  // namespace

std::string to_csv(std::span<const ReportedRun> runs) {
    const std::vector<TableColumn> columns = columns_of(runs);
    std::string out = "run";
    for (const TableColumn& column : columns)
        out += ',' + csv_quoted(column.name);
    out += '\n';
    for (const ReportedRun& run : runs) {
        const std::string label = csv_quoted(run.label);
        for (const Row& row : rows_of(run.log)) {
            out += label;
            for (const TableColumn& column : columns)
                out += ',' + column.cell(row);
            out += '\n';
        }
    }
    return out;
}

std::string to_json(std::span<const ReportedRun> runs) {
    const std::vector<TableColumn> columns = columns_of(runs);
    std::string out = "{\"runs\": [";
    for (const ReportedRun& run : runs) {
        out += text(&run == runs.data() ? "\n" : ",\n", "{\"run\": ", to_line(Json(run.label)),
                    ", \"name\": ", run.spec ? to_line(Json(run.spec->name)) : "null",
                    ",\n\"spec\": ", run.spec ? to_line(to_json(*run.spec)) : "null",
                    ",\n\"metrics\": {");
        const std::vector<Row> rows = rows_of(run.log);
        for (const TableColumn& column : columns) {
            out +=
                text(&column == columns.data() ? "\n" : ",\n", to_line(Json(column.name)), ": [");
            for (const Row& row : rows) {
                const std::string cell = column.cell(row);
                out += text(&row == rows.data() ? "" : ", ", cell.empty() ? "null" : cell);
            }
            out += ']';
        }
        out += text("},\n\"events\": ", to_line(events_of(run.log)),
                    ",\n\"tasks\": ", to_line(tasks_of(run)), "}");
    }
    return out + "\n]}\n";
}

}  // namespace gptrain
