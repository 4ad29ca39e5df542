#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <iterator>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/added_token_files.h"
#include "tokenizer/bpe_model.h"
#include "tokenizer/model_check.h"
#include "tokenizer/sentencepiece_bpe.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tokenizer_config.h"
#include "tokenizer/tokenizer_files.h"
#include "tokenizer/tokenizer_json.h"

namespace gptrain {
namespace {

/// The names of files that stand for a tokenizer, the preferred one first.
constexpr std::string_view main_names[] = {exported_sentencepiece_name, "tokenizer.json",
                                           "tokenizer.model", "vocab.json"};

TokenizerFile read_one(const std::filesystem::path& path) {
    if (named_vocabulary(path)) {
        return {convert_vocabulary(path, max_tokenizer_bytes), path.string(),
                configured_eos_token(path), path};
    }
    TokenizerFile file = {read_file(path, max_tokenizer_bytes), path.string(), "", path};
    if (named_yaml(path)) {
        fail(ExitCode::usage, path.string(),
             ": is a YAML file, not a tokenizer; give a tokenizer.json or a sentencepiece model "
             "(.model)");
    }
    if (is_tiktoken(file.bytes)) file.bytes = convert_tiktoken(file.bytes, file.source);
    if (is_tokenizer_json(file.bytes)) {
        file.eos_token = configured_eos_token(path);
    } else if (path.filename() == "tokenizer.model" ||
               path.filename() == exported_sentencepiece_name) {
        const CheckedModel model = check_model(file.bytes, file.source);
        const TokensOfModel tokens = tokens_added_to(path, std::ssize(model.pieces));
        if (tokens.added.empty()) return file;
        file.eos_token = configured_eos_token(path);
        file.bytes = convert_sentencepiece(model, tokens.added, tokens.legacy, file.source);
    }
    return file;
}

std::shared_ptr<const TokenModel> load(const TokenizerFile& file) {
    if (is_tokenizer_json(file.bytes))
        return load_bpe_model(file.bytes, file.source, file.eos_token);
    return load_sentencepiece_model(file.bytes, file.source);
}

/// The first tokenizer of a folder that gptrain can read; a line names those before it.
TokenizerFile first_readable(const std::filesystem::path& folder) {
    const std::vector<std::filesystem::path> paths = tokenizers_in(folder);
    if (paths.empty()) {
        fail(
            ExitCode::bad_input, folder.string(),
            ": a folder without a tokenizer.json, a tokenizer.model, or vocab.json and merges.txt");
    }
    std::error_code ignored;
    const bool has_unused_vocabulary = paths.front().filename() != "vocab.json" &&
                                       std::filesystem::exists(folder / "vocab.json", ignored);
    if (paths.size() == 1 && !has_unused_vocabulary) return read_one(paths.front());
    std::string faults;
    for (const std::filesystem::path& path : paths) {
        try {
            TokenizerFile file = read_one(path);
            file.model = load(file);
            warn_of_other_tokenizer(faults, path);
            return file;
        } catch (const Error& error) {
            if (error.code() != ExitCode::bad_input) throw;
            faults += text(faults.empty() ? "" : "; ", error.what());
        }
    }
    fail(
        ExitCode::bad_input, faults,
        has_unused_vocabulary ? "; name its vocab.json to split texts as GPT-2 or Qwen2 does" : "");
}

void check_utf8(std::string_view text) {
    if (const auto at = find_invalid_utf8(text); at != std::string_view::npos)
        fail(ExitCode::bad_input, "the text is not UTF-8 at byte ", at);
}

}  // namespace

std::vector<std::filesystem::path> tokenizers_in(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    std::error_code ignored;
    for (const std::string_view name : main_names) {
        if (name == "vocab.json" && !files.empty()) break;
        if (std::filesystem::exists(folder / name, ignored)) files.push_back(folder / name);
    }
    return files;
}

void warn_of_other_tokenizer(const std::string& faults, const std::filesystem::path& taken) {
    if (!faults.empty() && !stdout_silenced()) warn(faults, "; uses ", taken.string(), " instead");
}

TokenizerFile read_tokenizer(const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::is_directory(path, error) ? first_readable(path) : read_one(path);
}

std::string_view end_token_advice(const TokenizerFile& file) {
    return is_tokenizer_json(file.bytes)
               ? "name it as eos_token in a tokenizer_config.json next to it"
               : "a sentencepiece model must be trained with one (eos_id)";
}

std::vector<NamedFile> tokenizer_companions(const std::filesystem::path& tokenizer) {
    const std::string name = tokenizer.filename();
    const bool shared =
        std::find(std::begin(main_names), std::end(main_names), name) != std::end(main_names) ||
        named_vocabulary(tokenizer);
    std::vector<NamedFile> files;
    // Files next to another tokenizer belong to that one.
    if (!shared && !tokenizers_in(tokenizer.parent_path()).empty()) return files;
    for (const std::string_view other : companion_names) {
        if (!shared && other == "generation_config.json") continue;
        std::error_code ignored;
        const std::filesystem::path path = tokenizer.parent_path() / other;
        if (std::filesystem::exists(path, ignored))
            files.push_back({std::string(other), read_file(path, max_tokenizer_bytes)});
    }
    return files;
}

std::string_view tokenizer_file_name(std::string_view bytes) {
    return is_tokenizer_json(bytes) ? "tokenizer.json" : "tokenizer.model";
}

Tokenizer::Tokenizer(const std::filesystem::path& path) : Tokenizer(read_tokenizer(path)) {}

Tokenizer::Tokenizer(std::string_view bytes, const std::string& source)
    : Tokenizer(TokenizerFile{std::string(bytes), source, ""}) {}

Tokenizer::Tokenizer(const TokenizerFile& file)
    : fingerprint_(crc32c(file.bytes.data(), file.bytes.size())),
      model_(file.model ? file.model : load(file)) {}

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::int64_t Tokenizer::vocab_size() const {
    return std::ssize(model_->pieces);
}

std::optional<std::int32_t> Tokenizer::bos_id() const {
    return model_->bos_id;
}

std::optional<std::int32_t> Tokenizer::eos_id() const {
    return model_->eos_id;
}

std::optional<std::int32_t> Tokenizer::mask_id() const {
    return model_->mask_id;
}

std::optional<std::int32_t> Tokenizer::prefix_id() const {
    return model_->prefix_id;
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
    check_utf8(text);
    model_->encode(text, out, nullptr, TextStart::whole);
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out,
                       std::vector<std::size_t>& begins, TextStart start) const {
    check_utf8(text);
    model_->encode(text, out, &begins, start);
}

const std::vector<std::pair<std::string, std::int32_t>>& Tokenizer::spelled_pieces() const {
    return model_->spelled_pieces;
}

std::int64_t Tokenizer::least_tokens(std::string_view text) const {
    const std::size_t most = model_->most_bytes;
    return most == 0 ? 0 : static_cast<std::int64_t>((text.size() + most - 1) / most);
}

std::int64_t Tokenizer::encoding_bytes(std::string_view text) const {
    return model_->encoding_bytes(text);
}

std::string_view Tokenizer::bytes(std::int32_t id) const {
    return model_->piece(id).bytes;
}

std::string_view Tokenizer::mark(std::int32_t id) const {
    const auto found = model_->marks.find(id);
    return found == model_->marks.end() ? std::string_view() : found->second;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
    StreamDecoder decoder(*this);
    std::string text;
    for (const std::int32_t id : ids)
        text += decoder.push(id);
    return text + decoder.finish();
}

bool adds_bos(const Tokenizer& tokenizer, const Json& config, const Json& tokenizer_json) {
    if (config.contains("add_bos_token") && config.at("add_bos_token").is_boolean())
        return config.at("add_bos_token").get<bool>();
    return tokenizer.prefix_id() || !prefix_token(tokenizer_json).empty();
}

std::string StreamDecoder::push(std::int32_t id) {
    const DecodedPiece& piece = model_.piece(id);
    if (piece.kind == DecodedPiece::Kind::bytes) {
        pending_ += piece.bytes;
        std::string text = complete_characters();
        if (!text.empty()) at_start_ = false;
        return text;
    }
    std::string text = finish();
    const bool is_first = at_start_ && text.empty() && piece.kind == DecodedPiece::Kind::text;
    text += is_first ? first_text(id, piece.bytes) : piece.bytes;
    if (!text.empty()) at_start_ = false;
    return text;
}

std::string StreamDecoder::first_text(std::int32_t id, std::string_view piece) {
    if (const auto other = model_.first_texts.find(id); other != model_.first_texts.end()) {
        at_start_ = false;
        return other->second;
    }
    const bool strips = model_.strips_first_blank || model_.remove_extra_whitespaces;
    if (!strips || !piece.starts_with(' ')) return std::string(piece);
    at_start_ = model_.remove_extra_whitespaces;
    return std::string(piece.substr(1));
}

std::string StreamDecoder::finish() {
    std::string text = complete_characters();
    for (; !pending_.empty(); pending_.pop_back())
        text += replacement_character;
    return text;
}

std::string StreamDecoder::complete_characters() {
    std::string text;
    std::string_view rest = pending_;
    while (!rest.empty()) {
        const Utf8Step step = utf8_step(rest);
        if (step.kind == Utf8::incomplete) break;
        text += step.kind == Utf8::valid ? rest.substr(0, step.bytes) : replacement_character;
        rest.remove_prefix(step.bytes);
    }
    pending_ = std::string(rest);
    return text;
}

}  // namespace gptrain
