// The ids of words: a hash table that is never changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

/// A slot has 32 bits of the hash, so that a word without an id seldom costs more than one cache
/// line.
class WordTable {
public:
    struct Word {
        std::string bytes;
        std::int32_t id;
    };

    /// If words are equal, the first counts.
    explicit WordTable(std::vector<Word> words);

    std::optional<std::int32_t> find(std::string_view word) const;

private:
    struct Slot {
        std::uint32_t fingerprint = 0;
        std::uint32_t number = 0;  ///< of the word, from 1; 0: the slot is empty
    };

    std::vector<Word> words_;
    std::vector<Slot> slots_;  ///< open addressing; a power of two
};

}  // namespace gptrain
