// Trains lossless sentencepiece models: decode(encode(x)) == x for every UTF-8 text x.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace gptrain {

struct TokenizerTraining {
    enum class Kind { unigram, bpe };

    std::int64_t vocab_size = 0;
    Kind kind = Kind::unigram;
    /// Lines of text that the training sees at most: a uniform random sample of the corpus, which
    /// bounds its memory.
    std::int64_t max_lines = 2'000'000;
};

/// The bytes of a model trained on the documents that `next_document` puts into its argument until
/// it returns false. Ids: unk 0, bos 1, eos 2 (end of document), then 256 byte pieces; no pad. The
/// text is not normalised, blanks are kept as they are (the model's pieces hold true blanks, so
/// that U+2581, sentencepiece's usual sign for them, remains a character of its own), and
/// characters without a piece are spelt in bytes. The same documents give the same model on every
/// machine. A vocabulary that is too small or too large for the corpus is an Error (usage); a
/// corpus without text is one (bad_input).
std::string train_tokenizer(const TokenizerTraining& training,
                            const std::function<bool(std::string&)>& next_document);

}  // namespace gptrain
