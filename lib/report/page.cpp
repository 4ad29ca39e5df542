#include "report/page.h"

#include <algorithm>
#include <random>

#include "base/text.h"
#include "report/chart.h"
#include "report/figures.h"
#include "report/html.h"
#include "report/page_files.h"
#include "report/page_sections.h"
#include "report/run_charts.h"

namespace gptrain {
namespace {

using Runs = std::span<const ReportedRun>;

// ---- figures ------------------------------------------------------------------------------------

std::string tiles(const std::vector<Figure>& figures) {
    std::string out = "<dl class=\"tiles\">\n";
    for (const Figure& figure : figures) {
        out += text("<div>", element("dt", figure.name), "<dd>", html_escaped(figure.value),
                    element("small", figure.detail), "</dd></div>\n");
    }
    return out + "</dl>\n";
}

std::string figure_table(Runs runs) {
    std::vector<std::string> names;
    std::vector<std::vector<Figure>> figures;
    for (const ReportedRun& run : runs) {
        figures.push_back(figures_of(run));
        for (const Figure& figure : figures.back()) {
            if (std::find(names.begin(), names.end(), figure.name) == names.end())
                names.push_back(figure.name);
        }
    }
    std::string rows = run_columns(runs);
    for (const std::string& name : names) {
        rows += text("<tr>", element("th", name));
        for (const std::vector<Figure>& own : figures) {
            const auto found = std::ranges::find(own, name, &Figure::name);
            rows += "<td>";
            if (found != own.end())
                rows += html_escaped(found->value) + ' ' + element("small", found->detail);
            rows += "</td>";
        }
        rows += "</tr>\n";
    }
    return table(rows + "</tbody>");
}

// ---- page ---------------------------------------------------------------------------------------

/// Names the one script that may run: a new number for each page.
std::string random_nonce() {
    std::random_device device;
    std::string nonce;
    for (int i = 0; i < 4; ++i)
        nonce += text(device());
    return nonce;
}

std::string head(std::string_view title, std::string_view nonce) {
    return text(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "img-src data:; style-src 'unsafe-inline'; script-src 'nonce-",
        nonce, "'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
        element("title", title), "\n<style>\n", page_css, "</style>\n</head>\n<body>\n");
}

std::string title_of(Runs runs) {
    if (runs.size() > 1) return text(runs.size(), " training runs");
    return runs.front().spec ? runs.front().spec->name : runs.front().label;
}

std::string unknown_lines_note(Runs runs) {
    std::string out;
    for (const ReportedRun& run : runs) {
        if (run.log.unknown_lines == 0) continue;
        out += element("p",
                       text(run.label, "/metrics.jsonl: ignored ",
                            counted(run.log.unknown_lines, "line"), " that gptrain did not write"),
                       " class=\"note\"");
    }
    return out;
}

std::string chart_section(Runs runs) {
    const ChartFrame frame = frame_of(runs);
    std::string out = "<section class=\"charts\" aria-label=\"charts\">\n";
    for (const Chart& chart : charts_of(runs))
        out += to_html(chart, frame);
    out += "</section>\n";
    const bool marked = !frame.marks.empty();
    const bool undone = std::any_of(runs.begin(), runs.end(),
                                    [](const ReportedRun& run) { return !run.log.undone.empty(); });
    return out + text("<p class=\"note\">Over optimizer steps.",
                      marked
                          ? " Dashed lines are restarts and changes of the data, solid ones faults."
                          : "",
                      undone ? " Pale stretches are steps that were done again." : "", "</p>\n");
}

}  // namespace

std::string to_html(const PageContents& contents) {
    const Runs runs = contents.runs;
    const std::string title = title_of(runs);
    const std::string nonce = random_nonce();
    std::string out = head(title, nonce) + element("h1", title) + '\n';
    if (runs.size() == 1) {
        out += element("p", runs.front().label) + '\n' + tiles(figures_of(runs.front()));
    } else {
        out += figure_table(runs);
    }
    out += heading("Charts") + chart_section(runs) + task_section(runs) + time_section(runs) +
           event_section(runs) + plan_section(runs) + picture_section(contents.pictures) +
           spec_section(runs);
    out += text("<footer>", unknown_lines_note(runs), element("p", contents.made_by),
                "</footer>\n<script nonce=\"", nonce, "\">\n", page_js,
                "</script>\n</body>\n</html>\n");
    return out;
}

}  // namespace gptrain
