// Decides what each step of a BatchGenerator computes: first one token for every answer that is
// being written, then as much of the other answers' prompts as the step has room for. A request
// with many answers or long prompts does not hold up the others.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "infer/batch_generator.h"
#include "serve/answer.h"
#include "text/stop_texts.h"

namespace gptrain {

class Scheduler {
public:
    /// A step must have room for a token and its logits of each text. The codec must outlive it.
    Scheduler(const PromptCodec& codec, const BatchLimits& limits);

    /// A free place goes to the waiting request that holds the fewest; among equals, to the one
    /// that came first. Answers of a request share a reader.
    void add(Answer answer);
    /// Gives up the answers that have no place.
    void drop_waiting();
    /// The next step; empty if there is nothing to compute. Answers whose reader has gone or whose
    /// time is over lose their place here.
    std::vector<TextStep> next_steps();
    /// Takes the logits of the last step: BatchGenerator::TakeLogits.
    void take(std::size_t step, std::span<const float> logits);

    std::int64_t running() const { return std::ssize(order_); }
    std::int64_t waiting() const;
    /// Counts over all answers so far.
    std::int64_t prompt_tokens() const { return prompt_tokens_; }
    std::int64_t new_tokens() const { return new_tokens_; }

private:
    /// An answer that has a place.
    struct Running {
        Running(const PromptCodec& codec, Answer given);

        Answer answer;
        std::vector<std::int32_t> text;  ///< prompt and answer
        std::size_t before = 0;          ///< tokens of it in the caches, or on their way
        std::size_t next_logits = 0;     ///< the token whose logits come next
        std::size_t cached = 0;          ///< `before` at the beginning of the step
        /// The place from which the prompt is copied, all but its last token.
        std::optional<std::int64_t> copied_from = {};
        PromptCodec::Decoder decoder;
        StopTexts stop;

        std::int64_t written() const { return std::ssize(text) - std::ssize(*answer.prompt); }
        /// Tokens that the model has not read.
        std::int64_t left() const { return std::ssize(text) - static_cast<std::int64_t>(before); }
        bool is_writing() const { return left() == 1; }
        /// True if it can copy its prompt from another answer to the same one.
        bool can_copy() const { return before == 0 && text.size() > 1 && !answer.prompt_logprobs; }
        /// True if both answer the same prompt of a request.
        bool has_prompt_of(const Running& other) const {
            return answer.reader == other.answer.reader &&
                   answer.prompt_number == other.answer.prompt_number;
        }
    };
    /// The room that is left in a step.
    struct Room {
        std::int64_t tokens;
        std::int64_t logits;
    };

    Running& at(std::int64_t place) { return *places_[static_cast<std::size_t>(place)]; }
    void drop_unwanted();
    void admit();
    Answer next_waiting();
    void start(Answer answer);
    /// Adds parts of these prompts to the step, shortest remainder first. Half of the room is kept
    /// for the oldest, so that it ends, too.
    void read_prompts(std::vector<std::int64_t> reading, Room& room, std::vector<TextStep>& steps);
    /// False while another answer still reads the same prompt, which this one will copy.
    bool is_ready(std::int64_t place);
    std::optional<TextStep> step_of(std::int64_t place, Room& room);
    void choose(std::int64_t place, std::span<const float> logits);
    void free(std::int64_t place);

    const PromptCodec& codec_;
    BatchLimits limits_;
    std::list<std::deque<Answer>> waiting_;  ///< of each request, in the order in which they came
    std::map<const AnswerReader*, std::int64_t> held_;  ///< places of a request
    std::vector<std::optional<Running>> places_;
    std::vector<std::int64_t> order_;  ///< places in use, in the order in which the answers came
    std::vector<std::int64_t> last_;   ///< the places of the last step
    std::int64_t prompt_tokens_ = 0;
    std::int64_t new_tokens_ = 0;
};

}  // namespace gptrain
