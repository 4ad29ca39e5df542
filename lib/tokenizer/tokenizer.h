// Text to token ids and back, with BPE or WordPiece (a tokenizer.json) or a sentencepiece
// model (unigram, BPE, word or character).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tokenizer/token_model.h"

namespace gptrain {

/// Size limit of a tokenizer's file.
constexpr std::int64_t max_tokenizer_bytes = std::int64_t{64} << 20;

/// A tokenizer as it is read, stored in checkpoints and identified.
struct TokenizerFile {
    std::string bytes;
    std::string source;               ///< its name in errors
    std::string eos_token;            ///< in the folder's tokenizer_config.json; may be empty
    std::filesystem::path file = {};  ///< of the folder, if one was given
    /// The loaded model, if reading the file already had to load it.
    std::shared_ptr<const TokenModel> model = nullptr;
};

/// Reads a tokenizer.json, a sentencepiece model, vocab.json and merges.txt, or a file of tiktoken.
/// From a folder, reads the first of tokenizers_in() that gptrain can load. The last two are
/// converted to tokenizer.json (tokenizer_files.h), and so is a tokenizer.model to which files next
/// to it add tokens (sentencepiece_bpe.h). A file that is missing, not regular or too large is an
/// Error (bad_input); a run spec in its place is an Error (usage).
TokenizerFile read_tokenizer(const std::filesystem::path& path);

/// A sentencepiece model of gptrain in a model for transformers, next to the tokenizer.json made of
/// it. transformers looks for names that end in .model, and would read them wrongly.
constexpr std::string_view exported_sentencepiece_name = "gptrain.sentencepiece";

/// The tokenizers of a folder, as models are shared, the preferred one first:
/// gptrain.sentencepiece, tokenizer.json and tokenizer.model. vocab.json (with merges.txt) counts
/// only without them, because, unlike tokenizer.json, it does not define how to split texts.
std::vector<std::filesystem::path> tokenizers_in(const std::filesystem::path& folder);
/// Warns that the tokenizer `taken` replaces others, whose `faults` are not empty.
void warn_of_other_tokenizer(const std::string& faults, const std::filesystem::path& taken);

/// Advice about a tokenizer without an end-of-document token, as the end of a message.
std::string_view end_token_advice(const TokenizerFile& file);

/// A file with its name in a folder.
struct NamedFile {
    std::string name;
    std::string contents;
};

/// The files that a tokenizer may consist of as models are shared.
constexpr std::string_view shared_tokenizer_names[] = {
    "tokenizer.json",  "tokenizer_config.json", "special_tokens_map.json",
    "tokenizer.model", "added_tokens.json",     "vocab.json",
    "merges.txt",      "chat_template.jinja"};

/// The names of the files that tokenizer_companions reads.
constexpr std::string_view companion_names[] = {"tokenizer_config.json", "special_tokens_map.json",
                                                "chat_template.jinja", "generation_config.json"};

/// The other files of a shared model that belong to its tokenizer: tokenizer_config.json,
/// special_tokens_map.json, chat_template.jinja and generation_config.json, as far as they lie next
/// to `tokenizer`. Without generation_config.json if its file has a non-standard name: then no
/// model is shared there. Error (bad_input): one is not regular or too large.
std::vector<NamedFile> tokenizer_companions(const std::filesystem::path& tokenizer);

/// The name of a tokenizer's file in a checkpoint: tokenizer.json or tokenizer.model.
std::string_view tokenizer_file_name(std::string_view bytes);

/// A loaded tokenizer. All members are const and thread-safe.
class Tokenizer {
public:
    /// Reads (read_tokenizer), validates and loads a file. A faulty one is an Error (bad_input)
    /// that names the file and the fault.
    explicit Tokenizer(const std::filesystem::path& path);
    explicit Tokenizer(const TokenizerFile& file);
    /// Loads a tokenizer from its bytes; `source` names it in errors.
    Tokenizer(std::string_view bytes, const std::string& source);
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    std::int64_t vocab_size() const;
    std::optional<std::int32_t> bos_id() const;
    /// The end-of-document id.
    std::optional<std::int32_t> eos_id() const;
    /// The id of the mask token: the piece [MASK], else <mask>, else <|mask|>.
    std::optional<std::int32_t> mask_id() const;
    /// The special token that other programs put before each text, because a post-processor of the
    /// tokenizer.json adds it. encode() leaves it out.
    std::optional<std::int32_t> prefix_id() const;
    /// CRC-32C of the file.
    std::uint32_t fingerprint() const { return fingerprint_; }

    /// Appends the ids of `text` to `out`, without bos and eos: those of the libraries
    /// sentencepiece and tokenizers. Text that is not UTF-8 is an Error (bad_input), as is a model
    /// that passed validation but cannot encode it.
    void encode(std::string_view text, std::vector<std::int32_t>& out) const;
    /// The same, and appends the byte of `text` at which each id begins to `begins`. A token of
    /// normalized text begins where the text that it was made of does.
    void encode(std::string_view text, std::vector<std::int32_t>& out,
                std::vector<std::size_t>& begins, TextStart start = TextStart::whole) const;

    /// The pieces of a sentencepiece model that encode() takes for letters where a text spells
    /// them, as sentencepiece does: the control, the user-defined and the unknown ones without a
    /// space, with their ids. Empty for a tokenizer.json, whose added tokens encode() finds.
    const std::vector<std::pair<std::string, std::int32_t>>& spelled_pieces() const;

    /// A lower bound on the tokens of a text, from its length alone; 0 if there is none.
    std::int64_t least_tokens(std::string_view text) const;
    /// Bytes of memory that suffice to encode a text of valid UTF-8, its ids included.
    std::int64_t encoding_bytes(std::string_view text) const;

    /// The text of `ids`, always valid UTF-8: U+FFFD replaces each byte piece that is not part of a
    /// character. bos, eos and other special tokens decode to nothing. An id outside the vocabulary
    /// is an Error (bad_input).
    std::string decode(std::span<const std::int32_t> ids) const;

    /// The bytes that a token adds within a text: whole characters, or bytes that may be a part of
    /// one. An id outside the vocabulary is an Error (bad_input).
    std::string_view bytes(std::int32_t id) const;
    /// How a special token, which decodes to nothing, is spelled; empty for other tokens.
    std::string_view mark(std::int32_t id) const;

private:
    friend class StreamDecoder;
    std::uint32_t fingerprint_;
    std::shared_ptr<const TokenModel> model_;
};

/// True if other programs put a begin-of-text token before each text: if add_bos_token of `config`,
/// a tokenizer_config.json, is true; without that key, if the tokenizer adds one, or the
/// tokenizer.json next to a sentencepiece model (null without one).
bool adds_bos(const Tokenizer& tokenizer, const Json& config, const Json& tokenizer_json);

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
    /// A piece at the start, without the blanks that the encoder prepended.
    std::string first_text(std::int32_t id, std::string_view piece);

    const TokenModel& model_;
    std::string pending_;   // bytes of byte pieces that do not yet form a character
    bool at_start_ = true;  // a space that the encoder prepended is still to be removed
};

}  // namespace gptrain
