#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "base/text.h"
#include "planner/svg.h"
#include "planner/timeline.h"
#include "planner/timeline_view.h"

namespace gptrain {
namespace {

// Pixels.
constexpr double rows_left = 66;  // x of the rows, after the stage names
constexpr double top = 62;        // y of the first row, below title and legend
constexpr double margin = 14;
constexpr double row_height = 20;
constexpr double line_height = 3;  // height of messages and operations
constexpr double row_pitch = 27;
constexpr double row_pitch_with_operations = 31;
constexpr double digit_width = 6.2;

struct KindStyle {
    ActionKind kind;
    Rgb rgb;
    std::string_view legend;
};
constexpr std::array<KindStyle, 5> styles = {{
    {ActionKind::forward, {127, 178, 229}, "F: forward"},
    {ActionKind::backward, {124, 197, 138}, "BW: backward"},
    {ActionKind::backward_inputs, {124, 197, 138}, "B: input gradients"},
    {ActionKind::backward_weights, {242, 181, 107}, "W: weight gradients"},
    {ActionKind::head_weights, {242, 181, 107}, "WH: the head's"},
}};
constexpr Rgb message_rgb = {155, 127, 209};
constexpr Rgb operation_rgb = {140, 200, 205};
constexpr Rgb wait_rgb = {214, 92, 84};

const Rgb& rgb_of(ActionKind kind) {
    const auto style = std::find_if(styles.begin(), styles.end(),
                                    [&](const KindStyle& s) { return s.kind == kind; });
    return style == styles.end() ? message_rgb : style->rgb;
}

/// Later chunks are paler.
std::string colour(const Rgb& rgb, std::int64_t chunk, std::int64_t chunks) {
    constexpr double palest = 0.6;
    return svg_colour(
        rgb,
        chunks > 1 ? palest * static_cast<double>(chunk) / static_cast<double>(chunks - 1) : 0);
}

struct TimeUnit {
    std::string_view name;
    double per_second;
};

/// The largest unit in which `seconds` is at least 1.
TimeUnit unit_of(double seconds) {
    if (seconds >= 1) return {"s", 1};
    if (seconds >= 1e-3) return {"ms", 1e3};
    return {"\u00b5s", 1e6};
}

class Picture {
public:
    explicit Picture(const Timeline& timeline)
        : timeline_(timeline), span_(shown_time(timeline)), view_(make_view(timeline, rows_left)) {}

    std::string draw();

private:
    double row(std::int64_t stage) const {
        const double pitch = timeline_.operations.empty() ? row_pitch : row_pitch_with_operations;
        return top + pitch * static_cast<double>(stage);
    }
    double bottom() const { return row(timeline_.stages); }

    /// Calls draw(x of begin, x of end) for the visible parts of a time span.
    void for_each_shown(const TimeSpan& time, const auto& draw) const {
        for (const Window& window : view_.windows) {
            const double begin = std::max(time.begin, window.time.begin);
            const double end = std::min(time.end, window.time.end);
            if (begin < end) draw(view_.x(window, begin), view_.x(window, end));
        }
    }
    void draw_rows();
    void draw_events();
    void draw_operations();
    /// Draws one path for each colour, which keeps the file small.
    void draw_paths(const std::map<std::string, std::string>& paths);
    void draw_numbers();
    void draw_header();
    void draw_axis(const Window& window);
    void draw_gap();

    const Timeline& timeline_;
    TimeSpan span_;
    View view_;
    std::string out_;
};

std::string Picture::draw() {
    // Room for title and legend, however short the rows are.
    const double width = std::max(view_.right() + margin + 20, 900.0);
    const double height = bottom() + 40;
    out_ = svg_head(width, height);
    draw_header();
    draw_rows();
    draw_events();
    draw_operations();
    draw_numbers();
    for (const Window& window : view_.windows) {
        draw_axis(window);
    }
    if (view_.windows.size() > 1) draw_gap();
    out_ += "</svg>\n";
    return std::move(out_);
}

void Picture::draw_header() {
    const std::string caption =
        text(timeline_.title, ": bubble ", fixed(100 * bubble(timeline_), 1),
             " % (idle time / ideal time)");
    out_ += text("<title>", svg_escaped(caption), "</title>\n<text class=\"title\" x=\"", margin,
                 "\" y=\"24\">", svg_escaped(caption), "</text>\n");
    double x = rows_left;
    const auto entry = [&](std::string_view look, std::string_view label) {
        out_ += text("<rect ", look, " x=\"", pixels(x),
                     "\" y=\"36\" width=\"14\" height=\"14\"/>\n<text x=\"", pixels(x + 20),
                     "\" y=\"47\">", label, "</text>\n");
        x += 44 + digit_width * static_cast<double>(label.size());
    };
    const auto has_events = [&](const auto& matches) {
        return std::any_of(timeline_.events.begin(), timeline_.events.end(),
                           [&](const TimelineEvent& event) { return matches(event.kind); });
    };
    const auto fill = [](const Rgb& rgb) { return text("fill=\"", colour(rgb, 0, 1), '"'); };
    for (const KindStyle& style : styles) {
        if (has_events([&](ActionKind kind) { return kind == style.kind; }))
            entry(fill(style.rgb), style.legend);
    }
    if (has_events([](ActionKind kind) { return !computes(kind); }))
        entry(fill(message_rgb), "messages");
    if (!timeline_.operations.empty()) {
        entry(fill(operation_rgb), "operations in flight");
        entry(fill(wait_rgb), "waiting");
    }
    entry("class=\"idle\"", timeline_.chunks > 1 ? "idle (later chunks are paler)" : "idle");
}

void Picture::draw_rows() {
    for (std::int64_t stage = 0; stage < timeline_.stages; ++stage) {
        out_ += text("<text x=\"", margin, "\" y=\"", pixels(row(stage) + 14), "\">stage ", stage,
                     "</text>\n");
        for (const Window& window : view_.windows) {
            out_ +=
                text("<rect class=\"idle\" x=\"", pixels(window.x), "\" y=\"", pixels(row(stage)),
                     "\" width=\"", pixels(window.time.seconds() * view_.scale), "\" height=\"",
                     row_height, "\"/>\n");
        }
    }
}

/// The SVG path of a rectangle.
std::string rectangle(double left_x, double right_x, double y, double height) {
    return text('M', pixels(left_x), ' ', pixels(y), 'H', pixels(right_x), 'v', height, 'H',
                pixels(left_x), 'z');
}

void Picture::draw_paths(const std::map<std::string, std::string>& paths) {
    for (const auto& [fill, shapes] : paths) {
        out_ += text("<path class=\"event\" fill=\"", fill, "\" d=\"", shapes, "\"/>\n");
    }
}

void Picture::draw_events() {
    std::map<std::string, std::string> paths;
    for (const TimelineEvent& event : timeline_.events) {
        const bool message = !computes(event.kind);
        const double y = row(event.stage) + (message ? row_height + 1 : 0);
        std::string& path =
            paths[colour(rgb_of(event.kind), message ? 0 : event.chunk, timeline_.chunks)];
        for_each_shown({event.begin, event.end}, [&](double begin, double end) {
            path += rectangle(begin, end, y, message ? line_height : row_height);
        });
    }
    draw_paths(paths);
}

void Picture::draw_operations() {
    const auto draw = [&](const Rgb& rgb, const auto& time_of) {
        std::map<std::string, std::string> paths;
        std::string& path = paths[colour(rgb, 0, 1)];
        for (const TimelineOperation& operation : timeline_.operations) {
            const double y = row(operation.stage) + row_height + line_height + 2;
            for_each_shown(time_of(operation), [&](double begin, double end) {
                path += rectangle(begin, end, y, line_height);
            });
        }
        draw_paths(paths);
    };
    if (timeline_.operations.empty()) return;
    draw(operation_rgb, [](const auto& operation) {
        return TimeSpan{operation.begin, operation.wait};
    });
    // On top of the others: a stage that waits does nothing else.
    draw(wait_rgb, [](const auto& operation) { return TimeSpan{operation.wait, operation.end}; });
}

void Picture::draw_numbers() {
    for (const TimelineEvent& event : timeline_.events) {
        if (!computes(event.kind)) continue;
        const std::string number = text(event.microbatch);
        const double needed = digit_width * static_cast<double>(number.size()) + 2;
        for_each_shown({event.begin, event.end}, [&](double begin, double end) {
            if (end - begin < needed) return;
            out_ += text("<text class=\"number\" x=\"", pixels((begin + end) / 2), "\" y=\"",
                         pixels(row(event.stage) + 14), "\">", number, "</text>\n");
        });
    }
}

void Picture::draw_axis(const Window& window) {
    const TimeUnit unit = unit_of(span_.seconds());
    // Far enough apart for their labels.
    const AxisStep axis = axis_step(70 / view_.scale * unit.per_second);
    const double step = axis.step;
    const double y = bottom() + 2;
    const double first = (window.time.begin - span_.begin) * unit.per_second;
    const double last = (window.time.end - span_.begin) * unit.per_second;
    for (double k = std::ceil(first / step); k * step <= last; ++k) {
        const double x = view_.x(window, span_.begin + k * step / unit.per_second);
        out_ += text("<path class=\"line\" d=\"M", pixels(x), ' ', pixels(y), "v5\"/>\n",
                     "<text class=\"axis\" x=\"", pixels(x), "\" y=\"", pixels(y + 18), "\">",
                     fixed(k * step, axis.digits), k == 0 ? text(' ', unit.name) : "", "</text>\n");
    }
}

void Picture::draw_gap() {
    const Window& before = view_.windows.front();
    const Window& after = view_.windows.back();
    const double begin = view_.x(before, before.time.end);
    const double middle = (begin + after.x) / 2;
    constexpr double tooth = 8;
    for (const double x : {begin + tooth, after.x - tooth}) {
        out_ += text("<path class=\"line\" d=\"M", pixels(x), ' ', pixels(top));
        double side = tooth / 2;
        for (double y = top + tooth; y <= bottom(); y += tooth, side = -side) {
            out_ += text('L', pixels(x + side), ' ', pixels(y));
        }
        out_ += "\"/>\n";
    }
    const TimeUnit unit = unit_of(span_.seconds());
    const double omitted = (after.time.begin - before.time.end) * unit.per_second;
    out_ += text("<text class=\"axis\" x=\"", pixels(middle), "\" y=\"", pixels(top - 4), "\">",
                 fixed(omitted, omitted < 10 ? 1 : 0), ' ', unit.name, " omitted</text>\n");
}

}  // namespace

std::string to_svg(const Timeline& timeline) {
    return Picture(timeline).draw();
}

}  // namespace gptrain
