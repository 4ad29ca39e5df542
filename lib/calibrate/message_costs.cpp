#include "calibrate/message_costs.h"

#include <algorithm>
#include <vector>

#include "calibrate/samples.h"

namespace gptrain {
namespace {

/// Large enough that a message takes longer than its issue.
constexpr std::int64_t message_elements = std::int64_t{8} << 20;
constexpr int repeats = 9;

/// The dtype of the GEMM. A CPU that lacks bf16 would need memory to widen it.
DType gemm_dtype(const Backend& backend) {
    return backend.is_host() ? DType::f32 : DType::bf16;
}

class CostMeter {
public:
    CostMeter(Communicator& ranks, Backend& backend, std::int64_t width)
        : ranks_(ranks),
          backend_(backend),
          stopwatch_(backend.stopwatch()),
          arena_(backend, MemorySpace::device, "message costs",
                 size_of(DType::f32) * message_elements +
                     3 * size_of(gemm_dtype(backend)) * width * width + backend.scratch_bytes({}) +
                     5 * Arena::alignment),
          message_(arena_.allocate(DType::f32, {message_elements})),
          x_(arena_.allocate(gemm_dtype(backend), {width, width})),
          weight_(arena_.allocate(gemm_dtype(backend), {width, width})),
          y_(arena_.allocate(gemm_dtype(backend), {width, width})) {
        backend.use_scratch(arena_.allocate(DType::u8, {backend.scratch_bytes({})}));
        backend.run(Fill{.x = message_, .value = 0});
        backend.run(Fill{.x = x_, .value = 1});
        backend.run(Fill{.x = weight_, .value = 1});
    }

    double issue_seconds() {
        constexpr int in_a_row = 32;
        const Tensor small = message_.slice(0, 0, 256);
        std::vector<double> seconds;
        for (int i = 0; i < repeats; ++i) {
            begin_together();
            seconds.push_back(seconds_of([&] {
                                  for (int j = 0; j < in_a_row; ++j)
                                      ranks_.all_reduce(small, Reduce::sum).wait();
                              }) /
                              in_a_row);
        }
        backend_.synchronize();
        return summary(seconds).seconds;
    }

    double gemm_crowding() {
        const double alone = gemm_seconds(0);
        // Messages that last longer than the GEMM, even if it takes twice as long.
        const auto messages = static_cast<int>(std::min(200.0, 3 * alone / message_seconds())) + 2;
        return gemm_seconds(messages) / alone;
    }

private:
    void begin_together() {
        backend_.synchronize();
        ranks_.barrier();
    }
    double message_seconds() {
        return median_lap([&] { ranks_.all_reduce(message_, Reduce::sum).wait(); }, 0);
    }
    double gemm_seconds(int messages) {
        return median_lap(
            [&] { backend_.run(LinearForward{.x = x_, .weight = weight_, .bias = {}, .y = y_}); },
            messages);
    }
    /// Device seconds of the work while this many messages are in flight.
    double median_lap(const auto& work, int messages) {
        std::vector<double> seconds;
        for (int i = 0; i < repeats; ++i) {
            begin_together();
            std::vector<Pending> in_flight;
            for (int j = 0; j < messages; ++j)
                in_flight.push_back(ranks_.all_reduce(message_, Reduce::sum));
            stopwatch_->lap();
            work();
            stopwatch_->lap();
            in_flight.clear();
            seconds.push_back(stopwatch_->take_laps().front());
        }
        std::ranges::nth_element(seconds, seconds.begin() + repeats / 2);
        return seconds[repeats / 2];
    }

    Communicator& ranks_;
    Backend& backend_;
    std::unique_ptr<Stopwatch> stopwatch_;
    Arena arena_;
    Tensor message_;
    Tensor x_;
    Tensor weight_;
    Tensor y_;
};

}  // namespace

MessageCosts measure_message_costs(Communicator& ranks, Backend& backend, std::int64_t width) {
    CostMeter meter(ranks, backend, width);
    return {.issue_seconds = meter.issue_seconds(), .gemm_crowding = meter.gemm_crowding()};
}

}  // namespace gptrain
