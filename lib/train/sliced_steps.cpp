#include "train/sliced_steps.h"

namespace gptrain {

bool SlicedSteps::add(std::int64_t slices) {
    sliced_.push_back(slices > 1);
    count_ += sliced_.back() ? 1 : 0;
    if (sliced_.size() > window) {
        count_ -= sliced_.front() ? 1 : 0;
        sliced_.pop_front();
    }
    if (reported_ || count_ <= suitable) return false;
    reported_ = true;
    return true;
}

}  // namespace gptrain
