#include "interop/gguf_scores.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/utf8.h"
#include "tokenizer/character_symbols.h"

namespace gptrain {
namespace {

std::string_view fault_of_steps(const TokenizerDescription& description) {
    using Prefix = SpaceMarks::Prefix;
    if (!description.normalizer.replaces || description.pre_tokenizer.changes() ||
        !description.splitters.empty()) {
        return "its spaces; llama.cpp puts one before each part of a text or before none, as the "
               "normalizers Replace and Prepend do, and Metaspace does not";
    }
    const bool strips = description.normalizer.prefix == Prefix::always;
    if (!description.decodes_marks || !description.decodes_bytes || description.drops_first_marks ||
        description.strips_first_blank != strips)
        return "its decoder";
    if (!CharacterSymbols(description).is_lossless()) return "a vocabulary without all bytes";
    if (description.ignore_merges) return "model.ignore_merges";
    return {};
}

/// The tokens that merging may form: not those that are found as they are spelled, nor bytes.
std::vector<bool> mergeable(const TokenizerDescription& description) {
    std::vector<bool> can(description.tokens.size(), true);
    const auto clear = [&can](std::int32_t id) {
        if (id >= 0) can[static_cast<std::size_t>(id)] = false;
    };
    for (const AddedToken& token : description.added)
        clear(token.id);
    std::ranges::for_each(description.byte_ids, clear);
    clear(description.unknown);
    return can;
}

/// The number of pairs of tokens that form another one.
std::size_t pairs_that_merge(const TokenizerDescription& description,
                             const std::vector<bool>& can) {
    std::unordered_set<std::string_view> texts;
    for (std::size_t id = 0; id < can.size(); ++id)
        if (can[id]) texts.insert(description.tokens[id].bytes);
    std::size_t pairs = 0;
    for (const std::string_view token : texts) {
        for (std::size_t at = 1; at < token.size(); ++at) {
            const bool is_pair = begins_character(token[at]) &&
                                 texts.contains(token.substr(0, at)) &&
                                 texts.contains(token.substr(at));
            pairs += is_pair ? 1 : 0;
        }
    }
    return pairs;
}

}  // namespace

CharacterScores character_scores(const TokenizerDescription& description) {
    CharacterScores result = {std::vector<float>(description.tokens.size()),
                              fault_of_steps(description)};
    if (!result.fault.empty()) return result;
    const std::vector<bool> can = mergeable(description);
    const auto can_merge = [&can](std::int32_t id) { return can[static_cast<std::size_t>(id)]; };
    std::unordered_set<std::int32_t> formed;
    std::unordered_set<std::uint64_t> pairs;
    std::int32_t last = -1;
    for (const BpeMerge& merge : description.merges) {
        if (!can_merge(merge.left) || !can_merge(merge.right) || !can_merge(merge.whole))
            result.fault = "its merges, some of which are of added tokens";
        pairs.insert(std::uint64_t{static_cast<std::uint32_t>(merge.left)} << 32 |
                     static_cast<std::uint32_t>(merge.right));
        if (merge.whole == last) continue;
        last = merge.whole;
        if (!formed.insert(last).second) result.fault = "its merges; llama.cpp merges by token";
        result.scores[static_cast<std::size_t>(last)] = -static_cast<float>(formed.size());
    }
    if (pairs.size() != pairs_that_merge(description, can))
        result.fault = "its merges; llama.cpp merges all tokens that form another one";
    return result;
}

}  // namespace gptrain
