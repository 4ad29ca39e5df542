#include "stored/loss_spikes.h"

namespace gptrain {

double LossSpikes::limit(std::int64_t step) const {
    if (!policy_) return 0;
    auto end = losses_.end();
    while (end != losses_.begin() && std::prev(end)->step > step - 2)
        --end;
    if (end - losses_.begin() < policy_->window) return 0;
    double sum = 0;
    for (auto loss = end - policy_->window; loss != end; ++loss)
        sum += loss->value;
    return policy_->factor * sum / static_cast<double>(policy_->window);
}

void LossSpikes::add(std::int64_t step, double loss) {
    if (!policy_) return;
    losses_.push_back({step, loss});
    if (losses_.size() > capacity()) losses_.pop_front();
}

Json LossSpikes::to_json() const {
    Json losses = Json::array();
    for (const Loss& loss : losses_)
        losses.push_back({{"step", loss.step}, {"loss", loss.value}});
    return losses;
}

void LossSpikes::restore(const Json& saved, const std::string& source) {
    losses_.clear();
    for (const Json& entry : saved) {
        const JsonReader reader(entry, source);
        add(reader.integer("step"), reader.number("loss"));
    }
}

}  // namespace gptrain
