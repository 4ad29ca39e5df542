#include "stored/interval_loss.h"

namespace gptrain {

void IntervalLoss::add(std::int64_t step, const std::optional<WeightedSum>& loss) {
    if ((step - 1) % interval_ == 0) sum_ = {};
    if (loss) sum_.add(*loss);
}

std::optional<double> IntervalLoss::mean() const {
    if (!(sum_.weight > 0)) return std::nullopt;
    return sum_.mean();
}

Json IntervalLoss::to_json() const {
    return {{"loss", sum_.sum}, {"weight", sum_.weight}, {"interval", interval_}};
}

void IntervalLoss::restore(const Json& saved, const std::string& source) {
    sum_ = {};
    if (saved.is_null()) return;
    const JsonReader reader(saved, source);
    const WeightedSum sum = {.sum = reader.number("loss"), .weight = reader.number("weight")};
    if (reader.has("interval") && reader.integer("interval") == interval_) sum_ = sum;
}

}  // namespace gptrain
