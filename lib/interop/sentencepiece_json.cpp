#include "interop/sentencepiece_json.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/model_check.h"

namespace gptrain {
namespace {

using PieceIds = std::unordered_map<std::string_view, std::size_t>;

/// A merge of two pieces into the one that they spell.
struct Merge {
    float score;  ///< of the merged piece
    std::size_t left;
    std::size_t right;
};

bool keeps_text(const CheckedModel& model) {
    return !model.add_dummy_prefix && !model.remove_extra_whitespaces &&
           !model.escape_whitespaces && !model.has_charsmap;
}

/// Every split of a piece into two pieces, best score first.
std::vector<Merge> merges_of(const CheckedModel& model, const PieceIds& ids) {
    std::vector<Merge> merges;
    for (const ModelPiece& piece : model.pieces) {
        if (piece.type != PieceType::normal) continue;
        for (std::size_t at = 1; at < piece.text.size(); ++at) {
            if (!begins_character(piece.text[at])) continue;
            const auto left = ids.find(piece.text.substr(0, at));
            const auto right = ids.find(piece.text.substr(at));
            if (left != ids.end() && right != ids.end())
                merges.push_back({piece.score, left->second, right->second});
        }
    }
    std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
        return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right);
    });
    return merges;
}

Json bpe_model(const CheckedModel& model, std::string_view unknown) {
    PieceIds normal;
    Json vocab = Json::object();
    // Appended without a search for the key: pieces are distinct.
    auto& members = vocab.get_ref<Json::object_t&>();
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
        const ModelPiece& piece = model.pieces[id];
        if (piece.type == PieceType::normal) normal.emplace(piece.text, id);
        members.Json::object_t::Container::emplace_back(std::string(piece.text), id);
    }
    Json merges = Json::array();
    for (const Merge& merge : merges_of(model, normal))
        merges.push_back({model.pieces[merge.left].text, model.pieces[merge.right].text});
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", unknown},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"ignore_merges", false},
            {"vocab", std::move(vocab)},
            {"merges", std::move(merges)}};
}

Json unigram_model(const CheckedModel& model, std::size_t unknown_id) {
    Json vocab = Json::array();
    for (const ModelPiece& piece : model.pieces)
        vocab.push_back({piece.text, static_cast<double>(piece.score)});
    return {{"type", "Unigram"},
            {"unk_id", unknown_id},
            {"vocab", std::move(vocab)},
            {"byte_fallback", true}};
}

Json added_tokens(const CheckedModel& model) {
    Json added = Json::array();
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
        const ModelPiece& piece = model.pieces[id];
        const bool special = piece.type == PieceType::control || piece.type == PieceType::unknown;
        if (!special && piece.type != PieceType::user_defined) continue;
        added.push_back({{"id", id},
                         {"content", piece.text},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false},
                         {"special", special}});
    }
    return added;
}

std::optional<std::int64_t> existing(std::int64_t id) {
    return id >= 0 ? std::optional(id) : std::nullopt;
}

/// The unknown piece's id; nothing if there is none.
std::optional<std::size_t> unknown_id(const CheckedModel& model) {
    const auto unknown = std::ranges::find(model.pieces, PieceType::unknown, &ModelPiece::type);
    if (unknown == model.pieces.end()) return std::nullopt;
    return static_cast<std::size_t>(unknown - model.pieces.begin());
}

SpecialTokens special_tokens(const CheckedModel& model, std::size_t unknown) {
    const auto piece = [&](std::int64_t id) {
        return id >= 0 ? model.pieces[static_cast<std::size_t>(id)].text : std::string_view();
    };
    return {
        .unk = model.pieces[unknown].text, .bos = piece(model.bos_id), .eos = piece(model.eos_id)};
}

}  // namespace

std::string tokenizer_config(const SpecialTokens& tokens, std::int64_t max_length) {
    Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                   {"clean_up_tokenization_spaces", false},
                   {"model_max_length", max_length}};
    if (!tokens.unk.empty()) config["unk_token"] = tokens.unk;
    if (!tokens.bos.empty()) config["bos_token"] = tokens.bos;
    if (!tokens.eos.empty()) config["eos_token"] = tokens.eos;
    return to_document(config);
}

std::optional<std::string> llama_tokenizer_config(std::string_view model, const std::string& source,
                                                  std::int64_t max_length) {
    const CheckedModel checked = check_model(model, source);
    if (checked.model != PieceModel::bpe || !checked.byte_fallback || !checked.add_dummy_prefix ||
        checked.remove_extra_whitespaces || checked.has_charsmap)
        return std::nullopt;
    const auto unknown = unknown_id(checked);
    if (!unknown) return std::nullopt;
    Json config = parse_json(tokenizer_config(special_tokens(checked, *unknown), max_length),
                             "tokenizer_config.json");
    config["tokenizer_class"] = "LlamaTokenizer";
    config["legacy"] = true;
    config["add_bos_token"] = false;
    return to_document(config);
}

std::optional<TokenizerFiles> tokenizer_files(std::string_view model, const std::string& source,
                                              std::int64_t max_length) {
    const CheckedModel checked = check_model(model, source);
    const bool is_bpe = checked.model == PieceModel::bpe;
    if (!keeps_text(checked) || (!is_bpe && checked.model != PieceModel::unigram))
        return std::nullopt;
    const auto unknown = unknown_id(checked);
    if (!unknown) return std::nullopt;
    const SpecialTokens special = special_tokens(checked, *unknown);
    const Json tokenizer = {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", added_tokens(checked)},
        {"normalizer", nullptr},
        {"pre_tokenizer", nullptr},
        {"post_processor", nullptr},
        {"decoder",
         {{"type", "Sequence"},
          {"decoders", Json::array({{{"type", "ByteFallback"}}, {{"type", "Fuse"}}})}}},
        {"model", is_bpe ? bpe_model(checked, special.unk) : unigram_model(checked, *unknown)}};
    TokenizerFiles files;
    files.ids = {existing(checked.bos_id), existing(checked.eos_id)};
    files.tokenizer_json = to_line(tokenizer) + "\n";
    files.tokenizer_config = tokenizer_config(special, max_length);
    return files;
}

}  // namespace gptrain
