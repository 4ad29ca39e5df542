// Texts that a model writes by forward passes alone: on any mesh, without a cache of keys and
// values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/mpi_session.h"
#include "engine/forward_passes.h"
#include "tasks/written_text.h"

namespace gptrain {

struct WrittenTexts {
    std::vector<std::string> texts;  ///< in the order of the requests
    bool is_finite = true;           ///< false: some logits were not finite, and texts are missing
};

/// The text that the model writes after each prompt, likeliest token by token (of several the one
/// with the smallest id), on all ranks. All call it with the same requests and rules. Each token
/// takes a forward pass over everything before it, for all texts that have not ended, in the
/// batches of for_each_batch, whose errors it throws. After each batch all ranks call `go_on` with
/// the texts that have ended; if it returns false, the same on all, the result is empty.
std::optional<WrittenTexts> write_texts(const ForwardPasses& passes, const MpiSession& ranks,
                                        std::span<const WriteRequest> requests,
                                        const WritingRules& rules, ActionListener& listener,
                                        const std::function<bool(std::int64_t)>& go_on);

}  // namespace gptrain
