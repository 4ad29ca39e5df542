// Text to token ids and back, by a sentencepiece model (unigram, BPE, word or character).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// The largest model file.
constexpr std::int64_t max_tokenizer_bytes = std::int64_t{64} << 20;

/// The bytes of a model file. One that is missing, no regular file or too large is an Error
/// (bad_input), a run spec in its place one of usage.
std::string read_tokenizer(const std::filesystem::path& model);

/// A loaded model. All members are const and safe to call from several threads.
class Tokenizer {
public:
    /// Loads the model of `read_tokenizer` after checking its structure (model_check.h). A faulty
    /// one is an Error (bad_input) that names the file and the fault.
    explicit Tokenizer(const std::filesystem::path& model);
    /// Loads a model from its bytes; `source` names it in errors.
    Tokenizer(std::string_view model, const std::string& source);
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    std::int64_t vocab_size() const;
    std::optional<std::int32_t> bos_id() const;
    /// The end of a document.
    std::optional<std::int32_t> eos_id() const;
    /// CRC-32C of the model file.
    std::uint32_t fingerprint() const;

    /// Appends the ids of `text` to `out`: those that sentencepiece gives, without bos and eos.
    /// Text that is not UTF-8 is an Error (bad_input), as is a model that passed all checks and
    /// cannot encode it. If the model encodes words apart (as models
    /// trained here do), text above 64 KiB is encoded in parts cut before a word, or inside of one
    /// of 8 MiB.
    void encode(std::string_view text, std::vector<std::int32_t>& out) const;

    /// The text of `ids`, always UTF-8 (U+FFFD for each byte piece that is no part of a character).
    /// bos and eos decode to nothing. An id outside of the vocabulary is an Error (bad_input).
    std::string decode(std::span<const std::int32_t> ids) const;

private:
    friend class StreamDecoder;
    struct Model;
    std::unique_ptr<const Model> model_;
};

/// Decodes ids one at a time and gives text as soon as its characters are complete, for output
/// while ids are still being generated. The tokenizer must outlive it.
class StreamDecoder {
public:
    explicit StreamDecoder(const Tokenizer& tokenizer) : model_(*tokenizer.model_) {}
    /// The text that became complete with this id; may be empty.
    std::string push(std::int32_t id);
    /// The rest, with U+FFFD for bytes that never became a character.
    std::string finish();

private:
    std::string complete_characters();

    const Tokenizer::Model& model_;
    std::string pending_;   // bytes of byte pieces, not yet a whole character
    bool at_start_ = true;  // a blank that the encoder put before the text is still to be removed
};

}  // namespace gptrain
