#include <chrono>

#include "backend/backend.h"

namespace gptrain {
namespace {

/// Waits for the device at the end of each lap.
class HostStopwatch final : public Stopwatch {
public:
    explicit HostStopwatch(Backend& backend) : backend_(backend) {}

    void lap() override {
        backend_.synchronize();
        ends_.push_back(std::chrono::steady_clock::now());
    }
    std::vector<double> take_laps() override {
        std::vector<double> seconds;
        for (std::size_t i = 1; i < ends_.size(); ++i)
            seconds.push_back(std::chrono::duration<double>(ends_[i] - ends_[i - 1]).count());
        ends_.clear();
        return seconds;
    }

private:
    Backend& backend_;
    std::vector<std::chrono::steady_clock::time_point> ends_;
};

}  // namespace

std::unique_ptr<Stopwatch> Backend::stopwatch() {
    return std::make_unique<HostStopwatch>(*this);
}

}  // namespace gptrain
