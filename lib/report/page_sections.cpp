#include "report/page_sections.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "report/figures.h"
#include "report/html.h"
#include "report/plan_table.h"
#include "report/spec_table.h"

namespace gptrain {
namespace {

using Runs = std::span<const ReportedRun>;

constexpr std::size_t shown_events = 200;

// ---- tasks --------------------------------------------------------------------------------------

std::string task_cell(const ReportedRun& run, const TaskMetric& row) {
    const TaskMetric* own = find_metric(run.tasks, row.task, row.metric);
    if (own == nullptr) return "<td></td>";
    const std::string error =
        own->standard_error ? text("\u00b1 ", significant(*own->standard_error, 2)) : "";
    return text("<td>", significant(own->value, 4), ' ', element("small", error), "</td>");
}

}  // namespace

std::string task_section(Runs runs) {
    std::string rows;
    std::set<std::pair<std::string, std::string>> seen;
    for (const ReportedRun& run : runs) {
        for (const TaskMetric& row : run.tasks) {
            if (!seen.emplace(row.task, row.metric).second) continue;
            rows += text("<tr>", element("th", text(row.task, ", ", row.metric)));
            for (const ReportedRun& each : runs)
                rows += task_cell(each, row);
            rows += "</tr>\n";
        }
    }
    if (rows.empty()) return "";
    const std::string head = runs.size() > 1 ? run_columns(runs) : "<tbody>\n";
    return heading("Tasks") + table(head + rows + "</tbody>") +
           "<p class=\"note\">With their standard errors.</p>\n";
}

namespace {

// ---- time ---------------------------------------------------------------------------------------

struct TimeLook {
    std::size_t colour;
    std::string_view meaning;
};
/// In the order of time_parts.
constexpr std::array<TimeLook, time_parts.size()> time_looks = {{{2, "in steps that count"},
                                                                 {6, "before the first step"},
                                                                 {5, "loading checkpoints"},
                                                                 {4, "saving checkpoints"},
                                                                 {0, "evaluating"},
                                                                 {1, "in steps done again"}}};

std::string time_bar(const TimeSpent& spent) {
    std::string out =
        "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" "
        "role=\"img\" aria-label=\"running time by use\">";
    double x = 0;
    for (std::size_t i = 0; i < time_parts.size(); ++i) {
        const double width = 100 * std::max(0.0, spent.*time_parts[i].seconds) / spent.sum();
        out += text("<rect class=\"block ", colour_class(time_looks[i].colour), "\" x=\"",
                    fixed(x, 3), "\" width=\"", fixed(width, 3), "\" height=\"10\"/>");
        x += width;
    }
    return out + "</svg>\n";
}

/// A column of times for each run whose time is known, in one table.
std::string time_table(const std::vector<const ReportedRun*>& runs) {
    std::string rows;
    for (std::size_t i = 0; i < time_parts.size(); ++i) {
        rows += text("<tr><th class=\"swatched\">", swatch(time_looks[i].colour),
                     time_parts[i].name, "</th>");
        for (const ReportedRun* run : runs) {
            const TimeSpent& spent = run->log.time_spent;
            const double seconds = spent.*time_parts[i].seconds;
            rows += element("td", seconds_text(seconds), " class=\"number\"");
            rows += element("td", text(fixed(100 * seconds / spent.sum(), 1), " %"),
                            " class=\"number\"");
        }
        rows += text(element("td", time_looks[i].meaning), "</tr>\n");
    }
    return rows;
}

}  // namespace

std::string time_section(Runs runs) {
    std::vector<const ReportedRun*> known;
    for (const ReportedRun& run : runs) {
        if (run.log.time_spent.sum() > 0) known.push_back(&run);
    }
    if (known.empty()) return "";
    std::string out = heading("Where the time went");
    std::string columns;
    for (const ReportedRun* run : known) {
        if (runs.size() > 1) out += element("p", run->label) + '\n';
        out += time_bar(run->log.time_spent);
        columns += element("th", run->label, " colspan=\"2\"");
    }
    const std::string head =
        runs.size() > 1 ? text("<thead><tr><th></th>", columns, "<th></th></tr></thead>\n") : "";
    return out + table(head + time_table(known)) +
           "<p class=\"note\">Over all starts of the run, without the time between them.</p>\n";
}

namespace {

// ---- events -------------------------------------------------------------------------------------

std::string event_row(const RunEvent& event, std::string_view label) {
    return text("<tr>", element("td", grouped(event.step), " class=\"number\""), label,
                element("td", describe(event)), "</tr>\n");
}

}  // namespace

std::string event_section(Runs runs) {
    std::string rows;
    std::size_t count = 0;
    for (const ReportedRun& run : runs) {
        const std::string label = runs.size() > 1 ? element("td", run.label) : "";
        for (const RunEvent& event : run.log.events) {
            if (count++ < shown_events) rows += event_row(event, label);
        }
    }
    if (count == 0) return heading("Events") + "<p>None: no restart, no fault.</p>\n";
    const std::string head = text("<thead><tr><th>step</th>", runs.size() > 1 ? "<th>run</th>" : "",
                                  "<th>what happened</th></tr></thead>\n");
    std::string out = heading("Events") + table(head + rows);
    if (count > shown_events) {
        out +=
            text("<p class=\"note\">And ", grouped(static_cast<std::int64_t>(count - shown_events)),
                 " more: <code>--format json</code> lists all.</p>\n");
    }
    return out;
}

// ---- plan ---------------------------------------------------------------------------------------

std::string plan_section(Runs runs) {
    std::string out;
    bool is_rough = false;
    for (const ReportedRun& run : runs) {
        const std::vector<PlanRow> rows = plan_rows(run);
        if (runs.size() > 1 && (!rows.empty() || !run.no_plan.empty()))
            out += element("p", run.label) + '\n';
        if (!run.no_plan.empty()) out += element("p", "no plan: " + run.no_plan, " class=\"note\"");
        if (rows.empty()) continue;
        std::string body =
            "<thead><tr><th></th><th>planned</th><th>measured</th><th>ratio</th></tr></thead>\n";
        for (const PlanRow& row : rows) {
            is_rough = is_rough || row.ratio == "rough";
            body += text("<tr>", element("th", row.name),
                         element("td", row.planned, " class=\"number\""),
                         element("td", row.measured, " class=\"number\""),
                         element("td", row.ratio, " class=\"number\""), "</tr>\n");
        }
        out += table(body);
    }
    if (out.empty()) return "";
    const std::string rough =
        is_rough ? "Planned times are rough, because their hardware profile was not calibrated: "
                   "<code>gptrain plan --calibrate FILE</code> measures the machine. "
                 : "";
    return heading("Plan and measurement") + out + "<p class=\"note\">" + rough +
           "Measured times are medians. On a CPU the memory depends on the number of threads "
           "(OMP_NUM_THREADS); the plan is for those of this report.</p>\n";
}

namespace {

// ---- pictures -----------------------------------------------------------------------------------

/// As a data URI, in which only letters and digits stay unescaped.
std::string data_uri(std::string_view svg) {
    std::string out = "data:image/svg+xml,";
    for (const char c : svg) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                           (byte >= '0' && byte <= '9') || c == '.' || c == '-';
        if (plain) {
            out += c;
        } else {
            out += {'%', "0123456789ABCDEF"[byte / 16], "0123456789ABCDEF"[byte % 16]};
        }
    }
    return out;
}

}  // namespace

std::string picture_section(std::span<const Picture> pictures) {
    if (pictures.empty()) return "";
    std::string out = heading("Timelines");
    for (const Picture& picture : pictures) {
        out +=
            text("<figure>\n", element("figcaption", picture.title),
                 "<div class=\"wide\"><img class=\"picture\" alt=\"", html_escaped(picture.title),
                 "\" src=\"", data_uri(picture.svg), "\"></div>\n</figure>\n");
    }
    return out;
}

// ---- spec ---------------------------------------------------------------------------------------

std::string spec_section(Runs runs) {
    std::string out;
    if (runs.size() > 1) {
        const std::vector<SpecRow> differences = spec_differences(runs);
        std::string rows = run_columns(runs);
        for (const SpecRow& row : differences) {
            rows += text("<tr>", element("th", row.key));
            for (const std::string& value : row.values)
                rows += element("td", value);
            rows += "</tr>\n";
        }
        out += differences.empty() ? "<p>The runs have the same spec.</p>\n"
                                   : "<p>What differs:</p>\n" + table(rows + "</tbody>");
    }
    for (const ReportedRun& run : runs) {
        if (!run.spec) continue;
        out += text("<details><summary>", html_escaped(run.label), "/spec.yaml</summary>",
                    element("pre", to_yaml(*run.spec)), "</details>\n");
    }
    return out.empty() ? "" : heading("Run spec") + out;
}

}  // namespace gptrain
