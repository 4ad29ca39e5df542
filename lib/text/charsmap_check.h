// The normaliser's table in a sentencepiece model: a u32 that counts the bytes of a double-array
// trie (darts-clone), the trie, then texts that end in NUL. The library follows the trie's offsets
// and the texts without a bound, so every place that a lookup can reach is checked first.
#pragma once

#include <string_view>

namespace gptrain {

/// Refuses, as Error (bad_input) that names `source`: sizes that disagree; a trie over 4 MiB; an
/// offset that leads outside of the trie for any next byte; a loop; more than 32 keys that are
/// prefixes of one another (the library's result buffer); a value that is not the start of a text;
/// texts that are not UTF-8, longer than 256 bytes or without an end. An empty table is fine.
void check_charsmap(std::string_view table, std::string_view source);

}  // namespace gptrain
