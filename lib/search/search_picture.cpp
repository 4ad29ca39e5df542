#include "search/search_picture.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "comm/mesh.h"
#include "planner/step_prices.h"
#include "planner/svg.h"
#include "search/table_text.h"

namespace gptrain {
namespace {

// Pixels.
constexpr double picture_width = 920;
constexpr double side_margin = 14;
constexpr double plot_left = 70;
constexpr double plot_top = 82;
constexpr double plot_width = 820;
constexpr double plot_height = 360;
constexpr double list_top = plot_top + plot_height + 66;
constexpr double line_pitch = 17;

constexpr double slowest_shown = 1.6;  ///< times the fastest
constexpr std::int64_t most_nodes = 512;

constexpr Rgb bounded_rgb = {190, 194, 202};
constexpr Rgb simulated_rgb = {127, 178, 229};
constexpr Rgb best_rgb = {124, 197, 138};
constexpr Rgb own_rgb = {242, 181, 107};
constexpr double gibibyte = 1024.0 * 1024 * 1024;

std::string label(double x, double y, std::string_view words, std::string_view style = "") {
    return text("<text", style, " x=\"", pixels(x), "\" y=\"", pixels(y), "\">", svg_escaped(words),
                "</text>\n");
}

std::string dot(double x, double y, double radius, const Rgb& rgb) {
    return text("<circle cx=\"", pixels(x), "\" cy=\"", pixels(y), "\" r=\"", radius, "\" fill=\"",
                svg_colour(rgb), "\"/>\n");
}

/// A different colour for each of `count` stages.
Rgb stage_rgb(std::int64_t stage, std::int64_t count) {
    const double turn =
        4 + 6 * static_cast<double>(stage) / static_cast<double>(count);  // from blue
    const auto part = [&](double offset) {
        const double distance = std::fabs(std::fmod(turn + offset, 6.0) - 3);
        return 120 + static_cast<int>(120 * std::clamp(distance - 1, 0.0, 1.0));
    };
    return {part(0), part(4), part(2)};
}

/// Time against memory.
class Plot {
public:
    Plot(const SearchReport& report, const SearchContext& context)
        : report_(report),
          best_(report.result.best),
          batch_(static_cast<double>(best_.front().choices.global_batch_size)),
          least_seconds_(0.96 * seconds_of(best_.front())) {
        double seconds = 1.1 * least_seconds_;
        double bytes = 0;
        for (const CandidatePoint& point : report.result.points) {
            seconds = std::max(seconds, batch_ * point.seconds);
            bytes = std::max(bytes, point.bytes);
        }
        most_seconds_ = std::min(seconds, slowest_shown * least_seconds_);
        most_bytes_ = std::min(context.capacity, 1.05 * bytes);
    }

    std::string draw() const { return axes() + candidates() + own() + numbers(); }

private:
    /// Its time for as many samples as a step of the fastest candidate has.
    double seconds_of(const Found& found) const { return batch_ * found.seconds_per_sample(); }
    double x(double bytes) const { return plot_left + plot_width * bytes / most_bytes_; }
    double y(double seconds) const {
        const double share = (seconds - least_seconds_) / (most_seconds_ - least_seconds_);
        return plot_top + plot_height * (1 - share);
    }
    bool is_shown(double seconds) const { return seconds <= most_seconds_; }
    std::string axes() const;
    std::string candidates() const;
    std::string own() const;
    std::string numbers() const;

    const SearchReport& report_;
    const std::vector<Found>& best_;
    double batch_;
    double least_seconds_;
    double most_seconds_ = 0;
    double most_bytes_ = 0;
};

std::string Plot::axes() const {
    const double bottom = plot_top + plot_height;
    std::string out = text("<rect class=\"idle\" x=\"", plot_left, "\" y=\"", plot_top,
                           "\" width=\"", plot_width, "\" height=\"", plot_height, "\"/>\n");
    const AxisStep memory = axis_step(most_bytes_ / gibibyte / 10);
    for (int k = 0; k * memory.step * gibibyte <= most_bytes_; ++k) {
        const double at = x(k * memory.step * gibibyte);
        out += text("<path class=\"line\" d=\"M", pixels(at), ' ', pixels(bottom), "v5\"/>\n");
        out += label(at, bottom + 18, fixed(k * memory.step, memory.digits), " class=\"axis\"");
    }
    out +=
        label(plot_left + plot_width / 2, bottom + 36, "GiB that a rank needs", " class=\"axis\"");
    const AxisStep time = axis_step((most_seconds_ - least_seconds_) / 8);
    for (double k = std::ceil(least_seconds_ / time.step); k * time.step <= most_seconds_; ++k) {
        const double at = y(k * time.step);
        out += text("<path class=\"line\" d=\"M", pixels(plot_left), ' ', pixels(at), "h-5\"/>\n");
        out +=
            label(plot_left - 8, at + 4, fixed(k * time.step, time.digits), " text-anchor=\"end\"");
    }
    return out + label(side_margin, plot_top - 6, "seconds of a step");
}

std::string Plot::candidates() const {
    std::string out;
    std::set<std::pair<int, int>> drawn;  // one dot a pixel
    for (const bool simulated : {false, true}) {
        std::string path;
        for (const CandidatePoint& point : report_.result.points) {
            const double seconds = batch_ * point.seconds;
            if (point.simulated != simulated || !is_shown(seconds)) continue;
            const double at_x = x(point.bytes);
            const double at_y = y(seconds);
            if (simulated) {
                out += dot(at_x, at_y, 3.5, simulated_rgb);
            } else if (drawn.emplace(static_cast<int>(at_x), static_cast<int>(at_y)).second) {
                path += text('M', static_cast<int>(at_x), ' ', static_cast<int>(at_y), "h1");
            }
        }
        if (path.empty()) continue;
        out += text("<path fill=\"none\" stroke-width=\"2\" stroke=\"", svg_colour(bounded_rgb),
                    "\" d=\"", path, "\"/>\n");
    }
    return out;
}

std::string Plot::own() const {
    if (!report_.own.found) return "";
    const Found& found = *report_.own.found;
    const auto bytes = static_cast<double>(found.required_bytes);
    if (bytes > most_bytes_ || !is_shown(seconds_of(found))) return "";
    return dot(x(bytes), y(seconds_of(found)), 6, own_rgb);
}

std::string Plot::numbers() const {
    std::string out;
    for (std::size_t i = best_.size(); i-- > 0;) {
        const double at_x = x(static_cast<double>(best_[i].required_bytes));
        const double at_y = y(seconds_of(best_[i]));
        out += dot(at_x, at_y, i == 0 ? 9 : 7, best_rgb);
        out += label(at_x, at_y + 3.5, text(i + 1), " class=\"number\"");
    }
    return out;
}

std::string legend() {
    std::string out;
    double at = plot_left;
    for (const auto& [rgb, words] : {std::pair(best_rgb, "the fastest, by number"),
                                     std::pair(simulated_rgb, "simulated in full"),
                                     std::pair(bounded_rgb, "at least this, by a bound"),
                                     std::pair(own_rgb, "the spec's own settings")}) {
        out += dot(at + 6, 42, 5, rgb) + label(at + 18, 46, words);
        at += 46 + 6.2 * static_cast<double>(std::string_view(words).size());
    }
    return out;
}

std::string list_of_best(const std::vector<Found>& best) {
    std::string out;
    for (std::size_t i = 0; i < best.size(); ++i) {
        const Found& found = best[i];
        out += label(side_margin, list_top + line_pitch * static_cast<double>(i),
                     text(i + 1, ": ", plain_seconds(found.estimate.step.seconds), " s, ",
                          fixed(static_cast<double>(found.required_bytes) / gibibyte, 1),
                          " GiB: ", describe(found)));
    }
    return out;
}

/// Which rank of which node has which place in the mesh.
class MeshMap {
public:
    MeshMap(const RunPlan& plan, std::int64_t per_node, double top)
        : mesh_(plan.mesh),
          per_node_(per_node),
          nodes_(div_ceil(mesh_.size(), per_node)),
          top_(top),
          words_(mesh_.size() <= 64) {
        const std::int64_t shown = std::min(nodes_, most_nodes);
        cell_width_ = words_ ? 54 : shown * per_node > 1024 ? 7 : 13;
        cell_height_ = words_ ? 44 : cell_width_;
        columns_ = std::min<std::int64_t>(per_node, words_ ? 8 : 16);
        node_width_ = cell_width_ * static_cast<double>(columns_) + 10;
        node_height_ = cell_height_ * static_cast<double>(div_ceil(per_node, columns_)) + 10;
        const double room = picture_width - 2 * side_margin;
        nodes_in_row_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(room / node_width_));
        rows_ = div_ceil(shown, nodes_in_row_);
    }

    double bottom() const {
        return top_ + 44 + node_height_ * static_cast<double>(rows_) + (left_out() > 0 ? 20 : 0);
    }
    std::string draw() const;

private:
    std::int64_t left_out() const { return std::max<std::int64_t>(0, nodes_ - most_nodes); }
    std::string draw_node(std::int64_t node) const;
    std::string draw_rank(std::int64_t rank, double x, double y) const;

    MeshShape mesh_;
    std::int64_t per_node_;
    std::int64_t nodes_;
    double top_;
    bool words_;  ///< each rank has its place in words
    double cell_width_ = 0;
    double cell_height_ = 0;
    std::int64_t columns_ = 1;
    double node_width_ = 0;
    double node_height_ = 0;
    std::int64_t nodes_in_row_ = 1;
    std::int64_t rows_ = 0;
};

std::string MeshMap::draw() const {
    std::string out = label(side_margin, top_,
                            text("the ranks of number 1 on their nodes: dp ", mesh_.data, " x pp ",
                                 mesh_.pipeline, " x cp ", mesh_.context, " x tp ", mesh_.tensor),
                            " class=\"title\"");
    out += label(side_margin, top_ + 20,
                 "A frame is a node, a colour a pipeline stage. The ranks of tp stand side by side "
                 "and have one shade, then follow those of cp, dp and pp.");
    for (std::int64_t node = 0; node < std::min(nodes_, most_nodes); ++node)
        out += draw_node(node);
    if (left_out() > 0) {
        out += label(side_margin, bottom() - 8, text("and ", counted(left_out(), "node"), " more"));
    }
    return out;
}

std::string MeshMap::draw_node(std::int64_t node) const {
    const double x = side_margin + node_width_ * static_cast<double>(node % nodes_in_row_);
    const std::int64_t row = node / nodes_in_row_;
    const double y = top_ + 32 + node_height_ * static_cast<double>(row);
    const std::int64_t first = node * per_node_;
    const std::int64_t end = std::min(first + per_node_, mesh_.size());
    std::string out =
        text("<rect class=\"line\" x=\"", pixels(x), "\" y=\"", pixels(y), "\" width=\"",
             pixels(node_width_ - 4), "\" height=\"", pixels(node_height_ - 4), "\"/>\n");
    for (std::int64_t rank = first; rank < end; ++rank) {
        const std::int64_t column = (rank - first) % columns_;
        const std::int64_t line = (rank - first) / columns_;
        out += draw_rank(rank, x + 3 + cell_width_ * static_cast<double>(column),
                         y + 3 + cell_height_ * static_cast<double>(line));
    }
    return out;
}

std::string MeshMap::draw_rank(std::int64_t rank, double x, double y) const {
    const MeshPlace place = place_of(rank, mesh_);
    const bool pale = rank / mesh_.tensor % 2 == 1;
    std::string out = text("<rect class=\"event\" fill=\"",
                           svg_colour(stage_rgb(place.pp, mesh_.pipeline), pale ? 0.6 : 0.25),
                           "\" x=\"", pixels(x), "\" y=\"", pixels(y), "\" width=\"",
                           pixels(cell_width_), "\" height=\"", pixels(cell_height_),
                           "\"><title>rank ", rank, ": ", to_text(place), "</title></rect>\n");
    if (!words_) return out;
    const std::string context = mesh_.context > 1 ? text(" cp ", place.cp) : "";
    double line = y;
    for (const std::string& words :
         {text("pp ", place.pp), text("dp ", place.dp, context), text("tp ", place.tp)})
        out += label(x + cell_width_ / 2, line += 13, words, " class=\"number\"");
    return out;
}

}  // namespace

std::string to_svg(const SearchReport& report, const SearchContext& context) {
    const std::vector<Found>& best = report.result.best;
    const std::int64_t ranks = context.target.world_size;
    const double map_top = list_top + line_pitch * static_cast<double>(best.size()) + 20;
    const MeshMap map(best.front().plan, ranks_per_node(context.hardware, ranks), map_top);
    const std::string caption = text(context.spec.name, " on ", grouped(ranks), " x ",
                                     context.hardware.name, ": time and memory of a step");
    std::string out = svg_head(picture_width, map.bottom() + side_margin);
    out += text("<title>", svg_escaped(caption), "</title>\n");
    out += label(side_margin, 24, caption, " class=\"title\"");
    out += legend() + Plot(report, context).draw() + list_of_best(best) + map.draw();
    return out + "</svg>\n";
}

}  // namespace gptrain
