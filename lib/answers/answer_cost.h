// The time and memory of an answer of `generate` on given hardware.
#pragma once

#include <cstdint>

#include "planner/step_time.h"
#include "search/candidate_cost.h"

namespace gptrain {

/// Texts that a copy of the model continues at a time.
struct AnswerShape {
    std::int64_t prompt_tokens = 1;  ///< of each text
    std::int64_t new_tokens = 1;     ///< of each text
    std::int64_t batch = 1;          ///< texts
};

/// The time and memory of an answer on a mesh. Several copies of the model answer at the same time.
struct AnswerCost {
    MeshShape mesh;  ///< its data ranks are the copies
    AnswerShape shape;
    std::int64_t required_bytes = 0;  ///< of the rank that needs the most, with the reserve
    std::int64_t cache_bytes = 0;     ///< of keys and values in it
    double first_seconds = 0;         ///< from the prompt to the first new token
    StepTime next;                    ///< of a later token, on average; without its timeline

    /// From the prompt to the last token.
    double seconds() const {
        return first_seconds + static_cast<double>(shape.new_tokens - 1) * next.seconds;
    }
    /// New tokens of all copies.
    double tokens_per_second() const {
        return static_cast<double>(mesh.data * shape.batch * shape.new_tokens) / seconds();
    }
};

/// The plan of a generator on a mesh. `context` has the spec without_training. Error (usage) if the
/// spec's rules refuse the mesh.
RunPlan answer_plan(const SearchContext& context, const ParallelSpec& mesh,
                    const AnswerShape& shape);

/// The cost without its times: what the program takes on the meter.
AnswerCost answer_memory(const SearchContext& context, const RunPlan& plan,
                         const AnswerShape& shape);

/// Times the ops and messages that the program issues for the first token, and those for the token
/// in the middle of the answer, whose attention takes the mean time. The work of the host between
/// two tokens (copying logits, choosing) takes no time here.
void time_answer(const SearchContext& context, const RunPlan& plan, AnswerCost& cost);

}  // namespace gptrain
