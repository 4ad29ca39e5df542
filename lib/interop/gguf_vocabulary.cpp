#include "interop/gguf_vocabulary.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "interop/gguf_scores.h"
#include "tokenizer/bpe_merges.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/model_check.h"
#include "tokenizer/tokenizer_json.h"

namespace gptrain {
namespace {

/// The tokens in the order of their ids.
struct TokenList {
    std::vector<std::string> texts;
    std::vector<float> scores;
    std::vector<std::int32_t> types;  ///< as PieceType
    bool has_scores = false;          ///< llama.cpp merges by them

    void add(std::string token, PieceType type, float score = 0) {
        texts.push_back(std::move(token));
        types.push_back(static_cast<std::int32_t>(type));
        scores.push_back(score);
    }
};

[[noreturn]] void refuse_tokenizer(const GgufTokenizer& tokenizer, const auto&... why) {
    fail(ExitCode::usage, tokenizer.source, ": llama.cpp cannot read this tokenizer: ", why...,
         "; export with --format hf");
}

/// Fills the list up to `vocab` tokens. llama.cpp needs texts that differ.
void pad(TokenList& tokens, std::int64_t vocab, const GgufTokenizer& tokenizer) {
    if (std::ssize(tokens.texts) > vocab) {
        fail(ExitCode::usage, tokenizer.source, ": has ", tokens.texts.size(),
             " tokens, but the model has only ", vocab);
    }
    while (std::ssize(tokens.texts) < vocab)
        tokens.add(text("[PAD", tokens.texts.size(), "]"), PieceType::unused);
    std::unordered_set<std::string_view> seen;
    for (const std::string& token : tokens.texts)
        if (!seen.insert(token).second) refuse_tokenizer(tokenizer, "two tokens are ", token);
}

/// Replaces spaces by U+2581, as in llama.cpp. A piece that has U+2581 where an earlier one has a
/// space can no longer be found in a text.
TokenList sentencepiece_tokens(const CheckedModel& model) {
    std::unordered_set<std::string> taken;
    TokenList tokens;
    tokens.has_scores = true;
    for (const ModelPiece& piece : model.pieces) {
        std::string spelled;
        for (const char byte : piece.text)
            spelled += byte == ' ' ? std::string(space_mark) : std::string(1, byte);
        const bool is_new = taken.insert(spelled).second;
        if (is_new)
            tokens.add(spelled, piece.type, piece.score);
        else
            tokens.add(text("[UNUSED", tokens.texts.size(), "]"), PieceType::unused);
    }
    return tokens;
}

bool has_piece(const CheckedModel& model, PieceType type) {
    return std::any_of(model.pieces.begin(), model.pieces.end(),
                       [&](const ModelPiece& piece) { return piece.type == type; });
}

void check_sentencepiece(const CheckedModel& model, const GgufTokenizer& tokenizer) {
    if (model.model == PieceModel::unigram) {
        refuse_tokenizer(tokenizer,
                         "a unigram model; it would find other tokens (train-tokenizer --type bpe "
                         "or byte-bpe makes tokenizers that it reads)");
    }
    if (model.model != PieceModel::bpe)
        refuse_tokenizer(tokenizer, "a sentencepiece model of words or characters");
    if (model.has_charsmap || model.remove_extra_whitespaces)
        refuse_tokenizer(tokenizer, "a sentencepiece model that normalises text");
    if (!has_piece(model, PieceType::byte))
        refuse_tokenizer(tokenizer, "a sentencepiece model without pieces for bytes");
}

TokenList add_sentencepiece(const GgufTokenizer& tokenizer, GgufMetadata& to) {
    const CheckedModel model = check_model(tokenizer.bytes, tokenizer.source);
    check_sentencepiece(model, tokenizer);
    to.add_text("tokenizer.ggml.model", "llama");
    to.add_flag("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix);
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
        if (model.pieces[id].type != PieceType::unknown) continue;
        to.add_size("tokenizer.ggml.unknown_token_id", static_cast<std::int64_t>(id));
    }
    return sentencepiece_tokens(model);
}

bool is_word(std::string_view bytes, const std::vector<Splitter>& splitters) {
    if (find_invalid_utf8(bytes) != std::string_view::npos) return false;
    int words = 0;
    for_each_word(bytes, splitters, [&](std::string_view) { ++words; });
    return words == 1;
}

/// True if merging finds every word that is a token, so that `ignore_merges` changes nothing.
bool merges_find_words(const TokenizerDescription& description) {
    const BpeMerges merges(description.byte_ids, description.merges);
    std::vector<std::int32_t> ids;
    for (std::size_t id = 0; id < description.tokens.size(); ++id) {
        const BpeToken& token = description.tokens[id];
        if (!token.in_words || !is_word(token.bytes, description.splitters)) continue;
        ids.clear();
        merges.encode(token.bytes, ids);
        if (ids != std::vector{static_cast<std::int32_t>(id)}) return false;
    }
    return true;
}

struct NamedSplitters {
    std::vector<Splitter> splitters;
    std::string_view name;  ///< of llama.cpp
    bool ignores_merges = false;
};

/// How llama.cpp names ways to split a text.
const std::vector<NamedSplitters>& named_splitters() {
    static const std::vector<NamedSplitters> list = {
        {{Splitter::llama3}, "llama-bpe", true},
        {{Splitter::llama3}, "smaug-bpe"},
        {{Splitter::gpt2}, "gpt-2"},
        {{Splitter::qwen2}, "qwen2"},
        {{Splitter::qwen35}, "qwen35"},
        {{Splitter::o200k}, "gpt-4o"},
        {{Splitter::tekken}, "tekken", true},
        {{Splitter::single_digits, Splitter::gpt2}, "smollm"},
        {{Splitter::numbers, Splitter::kana, Splitter::deepseek3}, "deepseek-v3"},
        {{Splitter::line_ends, Splitter::spaced_letters, Splitter::spaced_punctuation,
          Splitter::asian, Splitter::single_digits},
         "deepseek-coder"},
    };
    return list;
}

/// The name that llama.cpp has for the way a text is split, and for ignore_merges.
std::string_view splitting_of(const TokenizerDescription& description,
                              const GgufTokenizer& tokenizer) {
    const bool either = merges_find_words(description);
    bool is_known = false;
    for (const NamedSplitters& named : named_splitters()) {
        if (named.splitters != description.splitters) continue;
        if (either || named.ignores_merges == description.ignore_merges) return named.name;
        is_known = true;
    }
    if (is_known) {
        refuse_tokenizer(tokenizer, "model.ignore_merges, which it has for other patterns",
                         description.ignore_merges ? "" : " only");
    }
    refuse_tokenizer(tokenizer,
                     "its pre-tokenizers; llama.cpp has ByteLevel alone or after Digits with "
                     "individual_digits, and the patterns of Llama 3, Qwen2, Qwen 3.5, o200k, "
                     "tekken, DeepSeek V3 and DeepSeek-Coder");
}

void check_added(const TokenizerDescription& description, const GgufTokenizer& tokenizer) {
    for (const AddedToken& token : description.added) {
        if (token.single_word || token.lstrip || token.rstrip)
            refuse_tokenizer(tokenizer, "the added token ", token.content,
                             " with lstrip, rstrip or single_word");
    }
}

/// Gives the added tokens their text and type, and ids that stand for nothing a name.
void mark_added(const TokenizerDescription& description, TokenList& tokens) {
    for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
        if (!tokens.texts[id].empty()) continue;
        tokens.texts[id] = text("[UNUSED", id, "]");
        tokens.types[id] = static_cast<std::int32_t>(PieceType::unused);
    }
    for (const AddedToken& added : description.added) {
        const auto id = static_cast<std::size_t>(added.id);
        tokens.texts[id] = added.content;
        tokens.types[id] =
            static_cast<std::int32_t>(added.special ? PieceType::control : PieceType::user_defined);
    }
}

TokenList add_byte_level(const TokenizerDescription& description, const GgufTokenizer& tokenizer,
                         GgufMetadata& to) {
    to.add_text("tokenizer.ggml.model", "gpt2");
    to.add_text("tokenizer.ggml.pre", splitting_of(description, tokenizer));
    TokenList tokens;
    for (const BpeToken& token : description.tokens)
        tokens.add(token.in_words ? spelling_of_bytes(token.bytes) : token.bytes,
                   PieceType::normal);
    mark_added(description, tokens);
    std::vector<std::string> merges;
    for (const BpeMerge& merge : description.merges) {
        merges.push_back(text(tokens.texts[static_cast<std::size_t>(merge.left)], " ",
                              tokens.texts[static_cast<std::size_t>(merge.right)]));
    }
    to.add_texts("tokenizer.ggml.merges", merges);
    return tokens;
}

TokenList add_tokenizer_json(const GgufTokenizer& tokenizer, GgufMetadata& to) {
    const TokenizerDescription description =
        parse_tokenizer_json(tokenizer.bytes, tokenizer.source);
    check_added(description, tokenizer);
    if (description.symbols == TokenizerDescription::Symbols::bytes)
        return add_byte_level(description, tokenizer, to);
    if (description.symbols == TokenizerDescription::Symbols::pieces)
        refuse_tokenizer(tokenizer, "WordPiece, which no causal model has");
    const CharacterScores found = character_scores(description);
    if (!found.fault.empty()) refuse_tokenizer(tokenizer, found.fault);
    to.add_text("tokenizer.ggml.model", "llama");
    to.add_flag("tokenizer.ggml.add_space_prefix",
                description.normalizer.prefix == SpaceMarks::Prefix::always);
    if (description.unknown >= 0)
        to.add_size("tokenizer.ggml.unknown_token_id", description.unknown);
    TokenList tokens;
    for (std::size_t id = 0; id < description.tokens.size(); ++id)
        tokens.add(description.tokens[id].bytes, PieceType::normal, found.scores[id]);
    mark_added(description, tokens);
    for (const std::int32_t id : description.byte_ids)
        if (id >= 0)
            tokens.types[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(PieceType::byte);
    if (description.unknown >= 0)
        tokens.types[static_cast<std::size_t>(description.unknown)] =
            static_cast<std::int32_t>(PieceType::unknown);
    tokens.has_scores = true;
    return tokens;
}

}  // namespace

void add_gguf_vocabulary(const GgufTokenizer& tokenizer, std::int64_t vocab, GgufMetadata& to) {
    if (tokenizer.bytes.empty()) return to.add_text("tokenizer.ggml.model", "none");
    // Without this key llama.cpp ends texts at a default id.
    if (!tokenizer.ids.eos)
        refuse_tokenizer(tokenizer, "without an end-of-document token (eos_token)");
    TokenList tokens = is_tokenizer_json(tokenizer.bytes) ? add_tokenizer_json(tokenizer, to)
                                                          : add_sentencepiece(tokenizer, to);
    pad(tokens, vocab, tokenizer);
    to.add_texts("tokenizer.ggml.tokens", tokens.texts);
    to.add_integers("tokenizer.ggml.token_type", tokens.types);
    if (tokens.has_scores) to.add_numbers("tokenizer.ggml.scores", tokens.scores);
    to.add_size("tokenizer.ggml.bos_token_id", tokenizer.ids.bos.value_or(*tokenizer.ids.eos));
    to.add_size("tokenizer.ggml.eos_token_id", *tokenizer.ids.eos);
    to.add_flag("tokenizer.ggml.add_bos_token", tokenizer.add_bos);
    to.add_flag("tokenizer.ggml.add_eos_token", false);
    if (!tokenizer.chat_template.empty())
        to.add_text("tokenizer.chat_template", tokenizer.chat_template);
}

}  // namespace gptrain
