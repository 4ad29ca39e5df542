// Finds ranks that are slower than others with the same work.
//
// Each rank measures its own part of a step: from taking the batch to the end of the step's
// operations, without waits for communication. A device that computes while the host continues is
// measured by its own events. The median of the last 50 steps counts. Ranks of one pipeline stage
// that had the same number of microbatches in these steps had the same work, so they are compared
// with each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "comm/comm_listener.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// The median of the last values, and their sum; nothing until there are enough.
class RunningMedian {
public:
    static constexpr std::size_t window = 50;

    void add(double value);
    std::optional<double> value() const;
    double sum() const;

private:
    std::vector<double> last_;
    std::size_t next_ = 0;
};

struct Straggler {
    int rank = 0;
    double seconds = 0;  ///< its own part of a step
    double others = 0;   ///< that of the median rank with the same work
};

/// The work of a rank in the last steps.
struct RankWork {
    double seconds = 0;  ///< its own part of a step
    std::int64_t microbatches = 0;
};

/// The ranks that take more than 1.2 times as long as the median rank with the same work (with an
/// even number, the faster of the middle two). `works` has one entry per rank.
std::vector<Straggler> find_stragglers(std::span<const RankWork> works, const MeshShape& mesh);

class StragglerWatch final : public CommListener {
public:
    void begin_step(std::int64_t microbatches);
    void end_step();

    /// True once a device measures the steps, for backends that compute while the host continues.
    bool times_device() const { return timer_ != nullptr; }

    /// All ranks call it after the same steps, with none in flight. Rank 0 warns of slow ranks, of
    /// each at most once in 50 steps. Ranks communicate at most once in 10 steps.
    void report(std::int64_t step, const MpiSession& ranks, const MeshShape& mesh);

    void on_started(const CommCall& /*call*/) override {}
    void on_waiting(const CommCall& call) override;
    void on_finished(const CommCall& call) override;
    void on_timer(DeviceTimer& timer) override { timer_ = &timer; }

private:
    using Clock = std::chrono::steady_clock;

    DeviceTimer* timer_ = nullptr;
    Clock::time_point began_;
    Clock::time_point waits_since_;
    Clock::duration waited_{};  ///< in this step
    RunningMedian own_seconds_;
    RunningMedian microbatches_;
    std::int64_t reported_ = 0;  ///< step of the last report
    std::map<int, std::int64_t> warned_;
};

}  // namespace gptrain
