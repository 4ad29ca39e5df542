#include "infer/prompt_codec.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"
#include "chat/chat_template.h"
#include "interop/hf_folder.h"
#include "stored/saved_run.h"
#include "tokenizer/tokenizer_config.h"
#include "tokenizer/tokenizer_json.h"

namespace gptrain {
namespace {

std::vector<std::int32_t> read_ids(std::string_view prompt) {
    std::vector<std::int32_t> ids;
    while (true) {
        const std::size_t begin = prompt.find_first_not_of(" \t\r\n");
        if (begin == std::string_view::npos) return ids;
        prompt.remove_prefix(begin);
        const std::string_view word = prompt.substr(0, prompt.find_first_of(" \t\r\n"));
        const auto id = parse_int(word);
        if (!id || *id < 0 || *id > INT32_MAX) {
            fail(ExitCode::usage, "the run has no tokenizer, so the prompt must be token ids; '",
                 word, "' is not one");
        }
        ids.push_back(static_cast<std::int32_t>(*id));
        prompt.remove_prefix(word.size());
    }
}

/// A JSON file next to the weights and its name in errors.
struct ConfigFile {
    Json json;
    std::string source;
};

std::optional<ConfigFile> read_config(const ModelSource& source, std::string_view name) {
    const auto contents = source.whole_file(std::string(name), max_hf_file_bytes);
    if (!contents) return std::nullopt;
    const std::string path = (source.folder() / name).string();
    return ConfigFile{parse_json(*contents, path), path};
}

/// True if the weights, or those that the run began with, are an imported model's. Token files have
/// no begin-of-text tokens, so a model of gptrain alone has never seen one.
bool is_from_elsewhere(const ModelSource& source) {
    const ModelSource& whole = source.whole();
    if (!whole.is_checkpoint() || saved_run(whole.checkpoint().meta()).weights_only) return true;
    return whole.spec().init_from.has_value();
}

/// The text with "\x.." for each byte that is not a printable ASCII character.
std::string escaped(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string shown;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7F && c != '\\') {
            shown += c;
        } else {
            shown += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
        }
    }
    return shown;
}

}  // namespace

PromptCodec::PromptCodec(const InferenceRun& run)
    : vocab_(run.plan.model.vocab), tokenizer_(run.tokenizer.open()) {
    if (tokenizer_) vocab_ = std::min(vocab_, tokenizer_->vocab_size());
    if (run.plan.end_of_document.id) ends_.add(*run.plan.end_of_document.id);
    if (tokenizer_ && tokenizer_->eos_id()) ends_.add(*tokenizer_->eos_id());
    read_generation_config(run.source);
    read_tokenizer_config(run);
}

void PromptCodec::read_generation_config(const ModelSource& source) {
    const auto config = read_config(source, hf_generation_name);
    if (config) return ends_.add_generation_config(config->json, config->source, vocab_);
    const HfFolder* folder = source.whole().hf();
    if (folder == nullptr) return;
    for (const std::int64_t id : folder->config().ids.more_eos)
        if (id < vocab_) ends_.add(id);
}

void PromptCodec::read_tokenizer_config(const InferenceRun& run) {
    const auto config = read_config(run.source, "tokenizer_config.json");
    if (!tokenizer_) return;
    marked_.emplace(*tokenizer_, config ? config->json : Json::object(),
                    config ? config->source : std::string());
    if (config) {
        bos_token_ = token_in_config(config->json, config->source, "bos_token");
        eos_token_ = token_in_config(config->json, config->source, "eos_token");
        add_end(eos_token_);
    }
    if (!is_from_elsewhere(run.source)) return;
    const auto& bytes = run.tokenizer.bytes();
    std::optional<ConfigFile> other;
    if (!bytes || !is_tokenizer_json(*bytes)) other = read_config(run.source, "tokenizer.json");
    if (adds_bos(*tokenizer_, config ? config->json : Json::object(), other ? other->json : Json()))
        begin_ = begin_of_texts();
}

std::optional<std::int32_t> PromptCodec::begin_of_texts() const {
    if (tokenizer_->prefix_id()) return tokenizer_->prefix_id();
    const std::vector<std::int32_t> ids = encode_marked(bos_token_);
    return ids.size() == 1 ? ids.front() : tokenizer_->bos_id();
}

void PromptCodec::add_end(std::string_view word) {
    if (tokenizer_) ends_.add(*tokenizer_, word);
}

std::vector<std::int32_t> PromptCodec::encode(std::string_view prompt) const {
    if (!begin_) return encode_alone(prompt);
    std::vector<std::int32_t> ids = {*begin_};
    const std::string mark = token_text(*begin_);
    if (prompt.starts_with(mark)) prompt.remove_prefix(mark.size());
    tokenizer_->encode(prompt, ids);
    return checked(std::move(ids));
}

std::vector<std::int32_t> PromptCodec::encode_alone(std::string_view text) const {
    std::vector<std::int32_t> ids;
    if (tokenizer_) {
        tokenizer_->encode(text, ids);
    } else {
        ids = read_ids(text);
    }
    return checked(std::move(ids));
}

std::vector<std::int32_t> PromptCodec::checked(std::vector<std::int32_t> ids) const {
    if (ids.empty() && ends_.first()) ids.push_back(narrow<std::int32_t>(*ends_.first()));
    if (ids.empty()) {
        fail(ExitCode::usage,
             "the prompt is empty, and the run has no end-of-document id to start from");
    }
    for (const std::int32_t id : ids) {
        if (id >= vocab_) {
            fail(ExitCode::usage, "token ", id, " of the prompt is outside the vocabulary of ",
                 vocab_);
        }
    }
    return ids;
}

std::vector<std::int32_t> PromptCodec::encode_marked(std::string_view text) const {
    return marked_->encode(text).ids;
}

PromptCodec::Decoder::Decoder(const PromptCodec& codec, std::span<const std::int32_t> before) {
    if (!codec.tokenizer_) return;
    stream_.emplace(*codec.tokenizer_);
    for (const std::int32_t id : before)
        stream_->push(id);
}

std::string PromptCodec::decode(std::span<const std::int32_t> ids) const {
    Decoder decoder(*this, {});
    std::string shown;
    for (const std::int32_t id : ids)
        shown += decoder.push(id);
    return shown + decoder.finish();
}

std::string PromptCodec::token_bytes(std::int32_t id) const {
    return tokenizer_ ? std::string(tokenizer_->bytes(id)) : text(id, " ");
}

std::string PromptCodec::token_text(std::int32_t id) const {
    if (tokenizer_ && !tokenizer_->mark(id).empty()) return std::string(tokenizer_->mark(id));
    std::string bytes = token_bytes(id);
    return find_invalid_utf8(bytes) == std::string::npos ? bytes : "bytes:" + escaped(bytes);
}

std::string PromptCodec::bos_mark() const {
    if (!bos_token_.empty() || !tokenizer_ || !tokenizer_->bos_id()) return bos_token_;
    return std::string(tokenizer_->mark(*tokenizer_->bos_id()));
}

std::string PromptCodec::eos_mark() const {
    if (!eos_token_.empty() || !tokenizer_ || !tokenizer_->eos_id()) return eos_token_;
    return std::string(tokenizer_->mark(*tokenizer_->eos_id()));
}

}  // namespace gptrain
