#include "train/step_fault.h"

#include <algorithm>
#include <tuple>

#include "base/json.h"
#include "base/text.h"

namespace gptrain {

std::string StepFault::to_text() const {
    return to_line({{"sample", sample}, {"begin", begin}, {"tensor", tensor}});
}

StepFault StepFault::from_text(std::string_view text) {
    const Json json = parse_json(text, "fault of a step");
    const JsonReader reader(json, "fault of a step");
    return {reader.integer("sample"), reader.integer("begin"), reader.string("tensor")};
}

std::string describe(const std::vector<StepFault>& faults, const MeshShape& mesh) {
    std::string description;
    const auto with_loss = std::find_if(faults.begin(), faults.end(),
                                        [](const StepFault& fault) { return fault.sample >= 0; });
    if (with_loss != faults.end()) {
        const std::int64_t rank = with_loss - faults.begin();
        description = text("the loss of rank ", rank, " (", to_text(place_of(rank, mesh)),
                           ") from sample ", with_loss->sample, " on");
    }
    // Backward runs through the last stage first.
    const StepFault* first = nullptr;
    std::tuple<std::int64_t, std::int64_t> first_order;
    for (std::size_t rank = 0; rank < faults.size(); ++rank) {
        const StepFault& fault = faults[rank];
        if (fault.begin < 0) continue;
        const std::int64_t stage = place_of(static_cast<std::int64_t>(rank), mesh).pp;
        const std::tuple order(-stage, fault.begin);
        if (first != nullptr && order >= first_order) continue;
        first = &fault;
        first_order = order;
    }
    if (first != nullptr)
        description += text(description.empty() ? "" : "; ", "the gradient of ", first->tensor);
    return description;
}

}  // namespace gptrain
