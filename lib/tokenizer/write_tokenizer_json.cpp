#include <utility>
#include <vector>

#include "base/error.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/split_patterns.h"
#include "tokenizer/tokenizer_json.h"

namespace gptrain {
namespace {

std::string spelling(const BpeToken& token) {
    return token.in_words ? spelling_of_bytes(token.bytes) : token.bytes;
}

Json byte_level_json(bool use_regex) {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", use_regex}};
}

Json pre_tokenizer_json(Splitter splitter) {
    if (splitter == Splitter::gpt2) return byte_level_json(true);
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", regex_of(splitter)}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level_json(false)})}};
}

Json added_json(const AddedToken& token) {
    return {
        {"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
        {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
        {"special", token.special}};
}

Json model_json(const TokenizerDescription& description) {
    // In place: nlohmann would search for every key.
    Json vocabulary = Json::object();
    auto& members = vocabulary.get_ref<Json::object_t&>();
    std::vector<std::string> spellings;
    for (std::size_t id = 0; id < description.tokens.size(); ++id) {
        spellings.push_back(spelling(description.tokens[id]));
        members.Json::object_t::Container::emplace_back(spellings.back(), id);
    }
    Json merges = Json::array();
    for (const BpeMerge& merge : description.merges) {
        merges.push_back({spellings[static_cast<std::size_t>(merge.left)],
                          spellings[static_cast<std::size_t>(merge.right)]});
    }
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", description.ignore_merges},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}};
}

}  // namespace

std::string to_tokenizer_json(const TokenizerDescription& description) {
    GPTRAIN_CHECK(description.splitters.size() == 1);
    Json added = Json::array();
    for (const AddedToken& token : description.added)
        added.push_back(added_json(token));
    const Json file = {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", std::move(added)},
        {"normalizer", description.nfc ? Json{{"type", "NFC"}} : Json()},
        {"pre_tokenizer", pre_tokenizer_json(description.splitters.front())},
        {"post_processor", nullptr},
        {"decoder", byte_level_json(true)},
        {"model", model_json(description)},
    };
    return to_line(file) + "\n";
}

}  // namespace gptrain
