// Trains byte-level BPE on the counts of words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace gptrain {

/// Trains a tokenizer.json of `vocab_size` tokens on the documents that `next_document` stores in
/// its argument until it returns false. Text is split by GPT-2's pattern. Ids: the 256 bytes in
/// GPT-2's order, the merges, and last <|endoftext|>, the end of document. Each merge takes the
/// most frequent pair at that point; ties go to the lowest ids. The same documents give the
/// same file on every machine. Memory is bounded: of more than four million distinct words the
/// rarest are dropped, and a word above 512 bytes counts as parts of 64. Errors (usage): a
/// vocabulary below 257, or larger than the pairs that occur twice allow; (bad_input): no text.
std::string train_byte_bpe(std::int64_t vocab_size,
                           const std::function<bool(std::string&)>& next_document);

}  // namespace gptrain
