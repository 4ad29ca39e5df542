// Text to token ids and back, with a sentencepiece model (unigram, BPE, word or character).
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

/// Size limit of a model file.
constexpr std::int64_t max_tokenizer_bytes = std::int64_t{64} << 20;

/// Reads the bytes of a model file. A file that is missing, not regular or too large is an Error
/// (bad_input); a run spec in its place is an Error (usage).
std::string read_tokenizer(const std::filesystem::path& model);

/// A loaded model. All members are const and thread-safe.
class Tokenizer {
public:
    /// Reads (read_tokenizer), validates (model_check.h) and loads a model file. A faulty one is an
    /// Error (bad_input) that names the file and the fault.
    explicit Tokenizer(const std::filesystem::path& model);
    /// Loads a model from its bytes; `source` names it in errors.
    Tokenizer(std::string_view model, const std::string& source);
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    std::int64_t vocab_size() const;
    std::optional<std::int32_t> bos_id() const;
    /// The end-of-document id.
    std::optional<std::int32_t> eos_id() const;
    /// CRC-32C of the model file.
    std::uint32_t fingerprint() const;

    /// Appends sentencepiece's ids of `text` to `out`, without bos and eos. Text that is not UTF-8
    /// is an Error (bad_input), as is a model that passed validation but cannot encode it. If the
    /// model encodes words independently (as models trained here do), text above 64 KiB is encoded
    /// in parts, split before a word, or within a word of more than 8 MiB.
    void encode(std::string_view text, std::vector<std::int32_t>& out) const;

    /// The text of `ids`, always valid UTF-8: U+FFFD replaces each byte piece that is not part of a
    /// character. bos and eos decode to nothing. An id outside the vocabulary is an Error
    /// (bad_input).
    std::string decode(std::span<const std::int32_t> ids) const;

private:
    friend class StreamDecoder;
    struct Model;
    std::unique_ptr<const Model> model_;
};

/// Decodes ids one at a time and returns text as soon as its characters are complete, to print it
/// during generation. The tokenizer must outlive it.
class StreamDecoder {
public:
    explicit StreamDecoder(const Tokenizer& tokenizer) : model_(*tokenizer.model_) {}
    /// The text completed by this id; may be empty.
    std::string push(std::int32_t id);
    /// The remaining text, with U+FFFD for bytes that never formed a character.
    std::string finish();

private:
    std::string complete_characters();

    const Tokenizer::Model& model_;
    std::string pending_;   // bytes of byte pieces that do not yet form a character
    bool at_start_ = true;  // a space that the encoder prepended is still to be removed
};

}  // namespace gptrain
