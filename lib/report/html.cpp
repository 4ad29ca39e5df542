#include "report/html.h"

#include "base/text.h"
#include "planner/svg.h"

namespace gptrain {

std::string html_escaped(std::string_view words) {
    std::string out;
    for (const char c : svg_escaped(words)) {
        if (c == '"') {
            out += "&quot;";
        } else {
            out += c;
        }
    }
    return out;
}

std::string colour_class(std::size_t colour) {
    constexpr std::size_t colours = 8;
    return text('c', colour % colours);
}

std::string element(std::string_view tag, std::string_view words, std::string_view attributes) {
    return text('<', tag, attributes, '>', html_escaped(words), "</", tag, ">");
}

std::string heading(std::string_view words) {
    return element("h2", words) + '\n';
}

std::string table(std::string_view rows) {
    return text("<div class=\"wide\"><table>\n", rows, "</table></div>\n");
}

std::string swatch(std::size_t colour) {
    return text(
        "<svg class=\"swatch\" viewBox=\"0 0 18 8\" aria-hidden=\"true\"><rect class=\"block ",
        colour_class(colour), "\" width=\"18\" height=\"8\"/></svg>");
}

std::string run_columns(std::span<const ReportedRun> runs) {
    std::string out = "<thead><tr><th></th>";
    for (std::size_t i = 0; i < runs.size(); ++i)
        out += text("<th>", swatch(i), html_escaped(runs[i].label), "</th>");
    return out + "</tr></thead>\n<tbody>\n";
}

}  // namespace gptrain
