#include "stored/expert_slices.h"

#include <algorithm>

#include "base/error.h"

namespace gptrain {
namespace {

/// A member that is at least `low`.
std::int64_t number_of(const JsonReader& saved, const std::string& source, std::string_view key,
                       std::int64_t low) {
    const std::int64_t value = saved.integer(key);
    if (value < low) fail(ExitCode::bad_input, source, ": '", key, "' is out of range: ", value);
    return value;
}

}  // namespace

void ExpertSlices::next_step() {
    if (slices_ > 1 && since_ >= patience) {
        slices_ = (slices_ + 1) / 2;
        since_ = 0;
    }
    ++since_;
}

bool ExpertSlices::repeat_step() {
    if (slices_ == most_) return false;
    slices_ = std::min(2 * slices_, most_);
    since_ = 1;
    ++repeats_;
    return true;
}

Json ExpertSlices::to_json() const {
    if (most_ == 1) return {};
    return {{"slices", slices_}, {"since", since_}, {"repeats", repeats_}};
}

void ExpertSlices::restore(const Json& saved, const std::string& source) {
    *this = ExpertSlices(most_);
    if (saved.is_null()) return;
    const JsonReader reader(saved, source);
    slices_ = std::min(number_of(reader, source, "slices", 1), most_);
    since_ = number_of(reader, source, "since", 0);
    repeats_ = number_of(reader, source, "repeats", 0);
}

}  // namespace gptrain
