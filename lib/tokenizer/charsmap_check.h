// Validates the normaliser table of a sentencepiece model: a u32 with the bytes of a double-array
// trie (darts-clone), the trie, then NUL-terminated texts. The library follows the trie's offsets
// and the texts without bounds checks, so every position that a lookup can reach is checked first.
#pragma once

#include <string_view>

namespace gptrain {

/// Throws Error (bad_input) that names `source` for: inconsistent sizes; a trie over 4 MiB; an
/// offset that leads outside the trie for any next byte; a loop; more than 32 keys that are
/// prefixes of one another (the library's result buffer); a value that is not the start of a text;
/// texts that are not UTF-8, longer than 256 bytes or unterminated. An empty table is valid.
void check_charsmap(std::string_view table, std::string_view source);

}  // namespace gptrain
