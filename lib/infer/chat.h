// A conversation with a trained model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "infer/conversation_codec.h"
#include "infer/text_generator.h"

namespace gptrain {

struct ChatOptions {
    /// A NamedTemplate's name or a file; empty: the model's own template.
    std::string chat_template;
    Json template_kwargs = Json::object();  ///< other variables for it
    std::string system;                     ///< what the assistant is told first; empty: nothing
    /// Tokens of the conversation together.
    std::int64_t positions = 0;
    SamplingOptions sampling;
    std::vector<std::string> stop;
    /// The most tokens of an answer; empty: as many as there is room for.
    std::optional<std::int64_t> max_tokens;
};

class Chat {
public:
    /// All ranks construct and call it together. Error (usage): the model has no tokenizer or no
    /// template; (bad_input): a faulty template.
    Chat(const InferenceRun& run, ChatOptions options);

    /// Answers the user's text, which is the same on all ranks. The oldest turns are forgotten when
    /// the conversation no longer fits, with a warning of rank 0 the first time. An answer that
    /// Reader::enough ends belongs to the conversation as far as it was shown. Error (usage): the
    /// turn alone does not fit; (bad_input): the template refuses the conversation. The
    /// conversation is then unchanged.
    void answer(std::string_view turn, const Reader& reader);

private:
    /// The tokens of the conversation up to where the answer begins, without the oldest turns if
    /// they do not fit.
    std::vector<std::int32_t> render_fitting();
    /// Removes the oldest turn and its answer; false if only one turn is left.
    bool forget_oldest();

    const InferenceRun& run_;
    ChatOptions options_;
    PromptCodec codec_;
    ConversationCodec conversations_;
    std::optional<TextGenerator> generator_;
    Json messages_ = Json::array();
    std::int64_t turns_ = 0;
    bool has_forgotten_ = false;
};

}  // namespace gptrain
