#include "calibrate/samples.h"

#include <algorithm>

namespace gptrain {

SampleSummary summary(std::vector<double> repeats) {
    std::sort(repeats.begin(), repeats.end());
    const std::size_t quarter = repeats.size() / 4;
    const double low = repeats[quarter];
    return {.seconds = low, .spread = (repeats[repeats.size() - 1 - quarter] - low) / low};
}

}  // namespace gptrain
