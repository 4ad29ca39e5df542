#include "interop/sentencepiece_json.h"

#include <cstddef>

#include "tokenizer/model_check.h"
#include "tokenizer/sentencepiece_bpe.h"

namespace gptrain {
namespace {

bool keeps_text(const CheckedModel& model) {
    return !model.add_dummy_prefix && !model.remove_extra_whitespaces &&
           !model.escape_whitespaces && !model.has_charsmap;
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

std::optional<std::int64_t> existing(std::int64_t id) {
    return id >= 0 ? std::optional(id) : std::nullopt;
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
    const auto unknown = unknown_piece(checked);
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
    const auto unknown = unknown_piece(checked);
    if (!unknown) return std::nullopt;
    const SpecialTokens special = special_tokens(checked, *unknown);
    const Json tokenizer = {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", piece_tokens_json(checked)},
        {"normalizer", nullptr},
        {"pre_tokenizer", nullptr},
        {"post_processor", nullptr},
        {"decoder",
         {{"type", "Sequence"},
          {"decoders", Json::array({{{"type", "ByteFallback"}}, {{"type", "Fuse"}}})}}},
        {"model",
         is_bpe ? bpe_model_json(checked, special.unk) : unigram_model(checked, *unknown)}};
    TokenizerFiles files;
    files.ids = {existing(checked.bos_id), existing(checked.eos_id)};
    files.tokenizer_json = to_line(tokenizer) + "\n";
    files.tokenizer_config = tokenizer_config(special, max_length);
    return files;
}

}  // namespace gptrain
