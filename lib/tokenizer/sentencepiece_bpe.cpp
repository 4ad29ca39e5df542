#include "tokenizer/sentencepiece_bpe.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace gptrain {
namespace {

using PieceIds = std::unordered_map<std::string_view, std::size_t>;

/// A merge of two pieces into the one that they spell.
struct Merge {
    float score;  ///< of the merged piece
    std::size_t left;
    std::size_t right;
};

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

[[noreturn]] void refuse(const std::string& source, const std::string& token,
                         std::string_view why) {
    fail(ExitCode::bad_input, source, ": the added token ", token, ": ", why,
         "; to do without added tokens, give a copy of the model in a folder of its own");
}

void check_kind(const CheckedModel& model, const Json& added, const std::string& source) {
    const auto is_new = [&model](const Json& token) {
        return token.at("id").get<std::int64_t>() >= std::ssize(model.pieces);
    };
    const auto first = std::find_if(added.begin(), added.end(), is_new);
    if (model.model != PieceModel::bpe || !model.byte_fallback || !model.escape_whitespaces ||
        model.remove_extra_whitespaces || model.has_charsmap || !unknown_piece(model))
        refuse(
            source, to_line(first->at("content")),
            "gptrain reads tokens that are added to a sentencepiece model only for BPE with byte "
            "pieces that changes only spaces, such as Llama's");
}

Json metaspace(bool legacy) {
    return {{"type", "Metaspace"},
            {"replacement", space_mark},
            {"prepend_scheme", legacy ? "always" : "first"},
            {"split", false}};
}

Json replace(std::string_view from, std::string_view to) {
    return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json decoder(bool strips) {
    Json parts =
        Json::array({replace(space_mark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
    if (strips) {
        parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    return {{"type", "Sequence"}, {"decoders", std::move(parts)}};
}

/// The tokens of the pieces, and those that are added to them.
Json all_tokens(const CheckedModel& model, const Json& added, const std::string& source) {
    Json tokens = piece_tokens_json(model);
    for (const Json& token : added) {
        const auto id = token.at("id").get<std::int64_t>();
        const auto& content = token.at("content").get_ref<const std::string&>();
        if (id >= 0 && id < std::ssize(model.pieces)) {
            const std::string_view piece = model.pieces[static_cast<std::size_t>(id)].text;
            if (piece != content)
                refuse(source, to_line(content),
                       text("its id ", id, " is that of ", to_line(piece)));
            const auto known = std::find_if(tokens.begin(), tokens.end(), [id](const Json& other) {
                return other.at("id") == id;
            });
            if (known != tokens.end()) tokens.erase(known);
        }
        tokens.push_back(token);
    }
    return tokens;
}

}  // namespace

std::optional<std::size_t> unknown_piece(const CheckedModel& model) {
    const auto unknown = std::ranges::find(model.pieces, PieceType::unknown, &ModelPiece::type);
    if (unknown == model.pieces.end()) return std::nullopt;
    return static_cast<std::size_t>(unknown - model.pieces.begin());
}

Json bpe_model_json(const CheckedModel& model, std::string_view unknown) {
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

Json piece_tokens_json(const CheckedModel& model) {
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

std::string convert_sentencepiece(const CheckedModel& model, const Json& added, bool legacy,
                                  const std::string& source) {
    check_kind(model, added, source);
    const std::string_view unknown = model.pieces[*unknown_piece(model)].text;
    const bool prefix = model.add_dummy_prefix;
    const Json file = {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", all_tokens(model, added, source)},
        {"normalizer", prefix ? Json() : replace(" ", space_mark)},
        {"pre_tokenizer", prefix ? metaspace(legacy) : Json()},
        {"post_processor", nullptr},
        {"decoder", decoder(prefix)},
        {"model", bpe_model_json(model, unknown)},
    };
    return to_line(file) + "\n";
}

}  // namespace gptrain
