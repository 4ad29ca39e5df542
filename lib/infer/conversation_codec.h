// Conversations as the token ids that a chat model continues.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/chat_template.h"
#include "infer/prompt_codec.h"

namespace gptrain {

class ConversationCodec {
public:
    /// `codec` learns the marks that end the template's turns, and must outlive it. `given`: a
    /// NamedTemplate's name or a file; empty: the model's own template, of a run that of its data,
    /// else the one that came with its tokenizer. All ranks construct it together. Error (usage):
    /// the model has no tokenizer or no template; (bad_input): a faulty template.
    ConversationCodec(const InferenceRun& run, PromptCodec& codec, const std::string& given);

    /// True if the model has a tokenizer and comes with a chat template.
    static bool has_own_template(const InferenceRun& run);

    /// The text of messages [{"role": ..., "content": ...}] up to where the answer begins.
    /// `kwargs`: an object of other variables for the template (chat_template_kwargs). Error
    /// (bad_input): the template refuses the messages, or does not use a variable.
    std::string render(const Json& messages, const Json& kwargs = Json::object()) const;
    /// The tokens of a rendered text, or of these messages.
    std::vector<std::int32_t> encode_text(std::string_view text) const;
    std::vector<std::int32_t> encode(const Json& messages, const Json& kwargs) const {
        return encode_text(render(messages, kwargs));
    }
    /// Error (bad_input) if the template does not use one of these variables.
    void require_used(const Json& kwargs) const;
    /// The text that ends a turn of a named template, or of a file with the text of one; empty:
    /// only tokens end it.
    std::string end_of_turn() const;

private:
    ChatTemplate open(const InferenceRun& run, const std::string& given);
    void add_ends(PromptCodec& codec) const;

    const NamedTemplate* named_ = nullptr;  ///< the one that the user named
    const NamedTemplate* known_ = nullptr;  ///< the one with the template's text
    const PromptCodec& codec_;
    ChatTemplate template_;
};

}  // namespace gptrain
