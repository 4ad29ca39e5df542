#include "train/run_state.h"

#include <optional>

namespace gptrain {

void RunState::add(const FinishedStep& finished) {
    loss_scale = last.loss_scale;
    last = finished.state;
    measures = finished.measures;
    ++step;
    consumed_samples += finished.samples;
    expert_slices = finished.expert_slices;
    goodput.add(&TimeSpent::useful, finished.seconds);
    interval_loss.add(step, skipped() ? std::nullopt : std::optional(loss_sum()));
    if (!skipped()) loss_spikes.add(step, mean_loss());
}

}  // namespace gptrain
