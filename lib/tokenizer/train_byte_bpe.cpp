#include "tokenizer/train_byte_bpe.h"

#include <algorithm>
#include <array>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer_json.h"

namespace gptrain {
namespace {

constexpr std::size_t max_distinct_words = std::size_t{1} << 22;
constexpr std::size_t max_word_bytes = 512;  // a longer one counts as parts
constexpr std::size_t word_part_bytes = 64;
constexpr std::int64_t fewest_occurrences = 2;  // a pair that occurs once teaches nothing
constexpr std::string_view end_of_document = "<|endoftext|>";

using WordCounts = std::unordered_map<std::string, std::int64_t>;

/// Calls `take` with the word, a long one in parts that end with a character.
void for_each_part(std::string_view word, const auto& take) {
    while (word.size() > max_word_bytes) {
        const std::size_t end = character_start(word, word_part_bytes);
        take(word.substr(0, end));
        word.remove_prefix(end);
    }
    take(word);
}

WordCounts count_words(const std::function<bool(std::string&)>& next_document) {
    const std::vector<Splitter> splitters = {Splitter::gpt2};
    WordCounts counts;
    std::int64_t dropped = 0;  // words that occurred at most so often were dropped
    std::string document;
    while (document.clear(), next_document(document)) {
        for_each_word(document, splitters, [&](std::string_view word) {
            for_each_part(word, [&](std::string_view part) { ++counts[std::string(part)]; });
        });
        while (counts.size() > max_distinct_words) {
            ++dropped;
            std::erase_if(counts, [dropped](const auto& entry) { return entry.second <= dropped; });
        }
    }
    return counts;
}

/// The words as ids, and their merges.
class PairMerger {
public:
    PairMerger(const WordCounts& counts, const std::array<std::int32_t, 256>& byte_ids) {
        // In an order that does not depend on the hash table.
        std::vector<std::pair<std::string_view, std::int64_t>> sorted(counts.begin(), counts.end());
        std::sort(sorted.begin(), sorted.end());
        for (const auto& [word, count] : sorted) {
            Word ids{.ids = {}, .count = count};
            for (const char byte : word)
                ids.ids.push_back(byte_ids[static_cast<unsigned char>(byte)]);
            words_.push_back(std::move(ids));
            count_pairs(words_.size() - 1, 1);
        }
        for (const auto& [pair, uses] : pairs_)
            candidates_.push({uses.count, pair});
    }

    /// Merges the most frequent pair into the id `whole`; false if none is frequent enough.
    bool merge_next(std::int32_t whole, BpeMerge& merge) {
        while (!candidates_.empty()) {
            const Candidate best = candidates_.top();
            candidates_.pop();
            const std::int64_t count = pairs_.at(best.pair).count;
            if (count < best.count) {
                candidates_.push({count, best.pair});
                continue;
            }
            if (count < fewest_occurrences) return false;
            merge = {static_cast<std::int32_t>(best.pair >> 32),
                     static_cast<std::int32_t>(best.pair & 0xFFFFFFFFu), whole};
            apply(best.pair, merge);
            return true;
        }
        return false;
    }

private:
    using Pair = std::uint64_t;  // left id, right id
    struct Word {
        std::vector<std::int32_t> ids;
        std::int64_t count = 0;
    };
    struct Uses {
        std::int64_t count = 0;
        std::vector<std::uint32_t> words;  // that have it, or had it
    };
    struct Candidate {
        std::int64_t count;  // at least the pair's present count
        Pair pair;
        bool operator<(const Candidate& other) const {
            return count != other.count ? count < other.count : pair > other.pair;
        }
    };

    /// Adds the word's pairs to the counts, or with sign -1 takes them off.
    void count_pairs(std::size_t index, int sign) {
        const Word& word = words_[index];
        for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
            Uses& uses = pairs_[Pair{static_cast<std::uint32_t>(word.ids[i])} << 32 |
                                static_cast<std::uint32_t>(word.ids[i + 1])];
            uses.count += sign * word.count;
            const auto at = static_cast<std::uint32_t>(index);
            if (sign > 0 && (uses.words.empty() || uses.words.back() != at))
                uses.words.push_back(at);
        }
    }

    void apply(Pair pair, const BpeMerge& merge) {
        std::vector<std::uint32_t> words = std::move(pairs_.at(pair).words);
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        std::vector<Pair> made;
        for (const std::uint32_t index : words) {
            count_pairs(index, -1);
            replace(words_[index].ids, merge);
            count_pairs(index, 1);
            append_pairs_with(words_[index].ids, merge.whole, made);
        }
        std::sort(made.begin(), made.end());
        made.erase(std::unique(made.begin(), made.end()), made.end());
        for (const Pair next : made)
            candidates_.push({pairs_.at(next).count, next});
    }

    static void replace(std::vector<std::int32_t>& ids, const BpeMerge& merge) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const bool both =
                i + 1 < ids.size() && ids[i] == merge.left && ids[i + 1] == merge.right;
            ids[kept++] = both ? merge.whole : ids[i];
            if (both) ++i;
        }
        ids.resize(kept);
    }

    static void append_pairs_with(const std::vector<std::int32_t>& ids, std::int32_t whole,
                                  std::vector<Pair>& out) {
        for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
            if (ids[i] == whole || ids[i + 1] == whole)
                out.push_back(Pair{static_cast<std::uint32_t>(ids[i])} << 32 |
                              static_cast<std::uint32_t>(ids[i + 1]));
        }
    }

    std::vector<Word> words_;
    std::unordered_map<Pair, Uses> pairs_;
    std::priority_queue<Candidate> candidates_;
};

/// The 256 bytes, in the order of their spellings.
TokenizerDescription byte_tokens() {
    std::vector<std::string> spellings;
    for (int byte = 0; byte < 256; ++byte)
        spellings.push_back(spelling_of_bytes(std::string(1, static_cast<char>(byte))));
    // UTF-8 sorts as code points do.
    std::sort(spellings.begin(), spellings.end());
    TokenizerDescription description;
    for (const std::string& spelling : spellings) {
        const std::string bytes = *bytes_of_spelling(spelling);
        description.byte_ids[static_cast<unsigned char>(bytes[0])] =
            static_cast<std::int32_t>(description.tokens.size());
        description.tokens.push_back({bytes, true});
    }
    description.splitters = {Splitter::gpt2};
    return description;
}

}  // namespace

std::string train_byte_bpe(std::int64_t vocab_size,
                           const std::function<bool(std::string&)>& next_document) {
    if (vocab_size < 257 || vocab_size > (1 << 20)) {
        fail(ExitCode::usage,
             "the vocabulary size must be 257 (256 bytes and the end of document) "
             "to ",
             1 << 20, ", not ", vocab_size, "; 4096 suits a few megabytes of text");
    }
    const WordCounts counts = count_words(next_document);
    if (counts.empty()) fail(ExitCode::bad_input, "the input files contain no text");
    TokenizerDescription description = byte_tokens();
    PairMerger merger(counts, description.byte_ids);
    while (std::ssize(description.tokens) + 1 < vocab_size) {
        BpeMerge merge;
        if (!merger.merge_next(static_cast<std::int32_t>(description.tokens.size()), merge)) {
            fail(ExitCode::usage, "cannot train a vocabulary of ", vocab_size,
                 " tokens on this corpus: its repeated text gives only ",
                 description.tokens.size() + 1, "; use that or less, or more text");
        }
        const auto bytes = [&](std::int32_t id) -> const std::string& {
            return description.tokens[static_cast<std::size_t>(id)].bytes;
        };
        description.tokens.push_back({bytes(merge.left) + bytes(merge.right), true});
        description.merges.push_back(merge);
    }
    const auto end = static_cast<std::int32_t>(description.tokens.size());
    description.tokens.push_back({std::string(end_of_document), false});
    description.added.push_back({std::string(end_of_document), end, true, false});
    return to_tokenizer_json(description);
}

}  // namespace gptrain
