// Detects a run whose messages to experts are too short.
#pragma once

#include <cstdint>
#include <deque>

namespace gptrain {

/// Counts the last 400 steps whose experts were computed in slices. A fresh router is out of
/// balance, and slices fall slowly from what it needs; in a run with suitable messages most steps
/// have none.
class SlicedSteps {
public:
    static constexpr std::size_t window = 400;
    static constexpr std::int64_t suitable = 300;

    /// Takes the slices of the next step. True the first time that more than 300 of the last 400
    /// steps had several.
    bool add(std::int64_t slices);

private:
    std::deque<bool> sliced_;
    std::int64_t count_ = 0;
    bool reported_ = false;
};

}  // namespace gptrain
