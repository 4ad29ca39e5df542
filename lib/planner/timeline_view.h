// Which parts of a timeline a picture shows, and how wide.
#pragma once

#include "planner/timeline.h"

namespace gptrain {

/// A part of the time that is shown, and where its begin lies.
struct Window {
    TimeSpan time;
    double x;  ///< pixels
};

/// Where times lie in the picture.
struct View {
    std::vector<Window> windows;
    double scale;  ///< pixels per second

    double x(const Window& window, double time) const {
        return window.x + (time - window.time.begin) * scale;
    }
    double right() const { return x(windows.back(), windows.back().time.end); }
};

/// The span, and operations that reach out of it.
TimeSpan shown_time(const Timeline& timeline);

/// All of the shown time from x = `left` on if it fits into 2400 pixels with actions that can be
/// told apart; else as much of its begin and of its end, with warmup and cooldown in full if
/// possible.
View make_view(const Timeline& timeline, double left);

}  // namespace gptrain
