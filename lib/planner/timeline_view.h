// Chooses the parts of a timeline that a picture shows, and their scale.
#pragma once

#include "planner/timeline.h"

namespace gptrain {

/// A visible part of the time, and the x of its start.
struct Window {
    TimeSpan time;
    double x;  ///< pixels
};

/// Maps times to positions in the picture.
struct View {
    std::vector<Window> windows;
    double scale;  ///< pixels per second

    double x(const Window& window, double time) const {
        return window.x + (time - window.time.begin) * scale;
    }
    double right() const { return x(windows.back(), windows.back().time.end); }
};

/// The span, extended by operations that reach beyond it.
TimeSpan shown_time(const Timeline& timeline);

/// Shows all of the time from x = `left` on if it fits into 2400 pixels with legible actions.
/// Otherwise shows as much of its start and its end as fits, with warmup and cooldown in full if
/// possible.
View make_view(const Timeline& timeline, double left);

}  // namespace gptrain
