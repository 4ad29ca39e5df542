// The message that rank 0 of a server broadcasts before every step.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "infer/batch_generator.h"

namespace gptrain {

struct StepMessage {
    bool stop = false;
    std::vector<TextStep> steps;  ///< empty: nothing is to do
};

std::string encode_step(const StepMessage& message);
StepMessage decode_step(std::string_view bytes);

}  // namespace gptrain
