// Measures how long work on a device takes.
#pragma once

#include <vector>

namespace gptrain {

/// Its laps end on the device, in the order of the issued work. The device may run them later.
class Stopwatch {
public:
    virtual ~Stopwatch() = default;
    /// A lap ends, and the next one begins, when the device has done all work issued so far.
    virtual void lap() = 0;
    /// Waits for the device. Returns the seconds of each lap after the first call of `lap`, and
    /// starts over.
    virtual std::vector<double> take_laps() = 0;
};

}  // namespace gptrain
