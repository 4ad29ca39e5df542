// Prompts and output of a model as text, or as token ids if it has no tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infer/inference.h"
#include "tokenizer/end_tokens.h"
#include "tokenizer/marked_text.h"

namespace gptrain {

class PromptCodec {
public:
    /// All ranks construct it together. Ids that end a text: the run's end of document, the
    /// tokenizer's, and those in the model's generation_config.json and tokenizer_config.json.
    explicit PromptCodec(const InferenceRun& run);
    PromptCodec(const PromptCodec&) = delete;
    PromptCodec& operator=(const PromptCodec&) = delete;

    bool has_tokenizer() const { return tokenizer_.has_value(); }
    const Tokenizer& tokenizer() const { return *tokenizer_; }
    const EndTokens& ends() const { return ends_; }
    /// The number of tokens that a text may have: the tokenizer's, if there is one. The model's
    /// vocabulary may be larger, to be a round number.
    std::int64_t vocab_size() const { return vocab_; }
    /// The logits of the tokenizer's tokens alone.
    std::span<const float> choices(std::span<const float> logits) const {
        return logits.first(static_cast<std::size_t>(vocab_));
    }
    /// A prompt of an imported model, or of one trained from it, begins with the begin-of-text
    /// token where the tokenizer's files say so (adds_bos), once if the prompt spells it, too. An
    /// empty prompt is the start of a document. Error (usage): a word that is no id, an id outside
    /// the vocabulary, or an empty prompt of a model without an end of document.
    std::vector<std::int32_t> encode(std::string_view prompt) const;
    /// The same without a begin-of-text token.
    std::vector<std::int32_t> encode_alone(std::string_view text) const;
    /// The same for a prompt of ids.
    std::vector<std::int32_t> checked(std::vector<std::int32_t> ids) const;
    /// A lower bound on the tokens of a text, from its length alone; 0 if there is none.
    std::int64_t least_tokens(std::string_view text) const {
        return tokenizer_ ? tokenizer_->least_tokens(text) : 0;
    }
    /// Bytes of memory that suffice to encode a text of valid UTF-8.
    std::int64_t encoding_bytes(std::string_view text) const {
        return tokenizer_ ? tokenizer_->encoding_bytes(text) : 8 * std::ssize(text);
    }
    /// The ids of a text in which special tokens may be spelled, such as <s> (MarkedEncoder).
    std::vector<std::int32_t> encode_marked(std::string_view text) const;

    bool ends(std::int32_t id) const { return ends_.contains(id); }
    /// If the word is a single token, that token ends texts too.
    void add_end(std::string_view word);
    /// The texts of the marks in tokenizer_config.json; empty if there is none.
    const std::string& bos_token() const { return bos_token_; }
    const std::string& eos_token() const { return eos_token_; }

    /// Decodes an output token by token.
    class Decoder {
    public:
        /// Continues a text of these tokens.
        Decoder(const PromptCodec& codec, std::span<const std::int32_t> before);
        /// The text completed by this id.
        std::string push(std::int32_t id) { return stream_ ? stream_->push(id) : text(id, " "); }
        std::string finish() { return stream_ ? stream_->finish() : std::string(); }

    private:
        std::optional<StreamDecoder> stream_;
    };
    std::string decode(std::span<const std::int32_t> ids) const;
    /// The bytes that a token adds within a text, perhaps a part of a character; none for a mark.
    std::string token_bytes(std::int32_t id) const;
    /// The same as text, or how a mark is spelled. A part of a character is, as in OpenAI's API,
    /// "bytes:" with escapes: "bytes:\xe2\x82".
    std::string token_text(std::int32_t id) const;
    /// The spellings of the tokenizer's begin and end of a text; empty if it has none.
    std::string bos_mark() const;
    std::string eos_mark() const;

private:
    void read_generation_config(const ModelSource& source);
    void read_tokenizer_config(const InferenceRun& run);
    std::optional<std::int32_t> begin_of_texts() const;

    std::int64_t vocab_;
    std::optional<Tokenizer> tokenizer_;
    std::optional<MarkedEncoder> marked_;
    EndTokens ends_;  ///< the first one starts a document
    std::string bos_token_;
    std::string eos_token_;
    std::optional<std::int32_t> begin_;  ///< the token before each prompt
};

}  // namespace gptrain
