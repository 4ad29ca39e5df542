// Trains lossless tokenizers: decode(encode(x)) == x for every UTF-8 text x (that spells no special
// token).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace gptrain {

struct TokenizerTraining {
    enum class Kind {
        byte_bpe,  ///< byte-level BPE: a tokenizer.json (train_byte_bpe.h)
        bpe,       ///< sentencepiece models
        unigram,
    };

    std::int64_t vocab_size = 0;
    Kind kind = Kind::byte_bpe;
    /// Sentencepiece: at most this many lines are used for training: a uniform random sample of the
    /// corpus, which bounds memory.
    std::int64_t max_lines = 2'000'000;
};

/// Trains a model on the documents that `next_document` stores in its argument until it returns
/// false; returns the bytes of the file. Ids of sentencepiece models are unk 0, bos 1, eos 2 (end
/// of document), then 256 byte pieces; no pad. Text is not normalised and spaces are kept (pieces
/// contain real spaces, so U+2581, sentencepiece's usual sign for them, remains an ordinary
/// character). Characters without a piece are encoded as bytes. The same documents give the same
/// model on every machine. A vocabulary too small or too large for the corpus is an Error (usage),
/// a corpus without text an Error (bad_input).
std::string train_tokenizer(const TokenizerTraining& training,
                            const std::function<bool(std::string&)>& next_document);

}  // namespace gptrain
