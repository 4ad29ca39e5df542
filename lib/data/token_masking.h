// Masked language modelling: the tokens of a sequence that a model has to find, and those that it
// reads in their place. A pure function of the seed, the sample's index and the position, so every
// mesh masks alike, a resumed run repeats its masks, each pass over the data has new ones, and an
// evaluation, which counts its samples from 0, always has the same.
#pragma once

#include <cstdint>
#include <span>

#include "base/philox.h"
#include "spec/run_spec.h"

namespace gptrain {

/// How the samples of a run are masked.
struct TokenMasking {
    MlmSpec rule;  ///< mask_id is known
    std::uint64_t seed = 0;
    std::int64_t vocab_size = 0;
};

/// Chooses some tokens of sample `sample` and replaces them by those that the model reads. `chosen`
/// is 1 for each token that may be chosen, and afterwards for each one that is.
///
/// masking token (BERT, Devlin et al. 2018, arXiv 1810.04805; masked again in each pass as in
/// RoBERTa, Liu et al. 2019, arXiv 1907.11692): a token is chosen with probability mask_rate, each
/// by itself. It becomes mask_id with probability mask_share, a token drawn evenly from the
/// vocabulary with random_share, and else stays.
///
/// masking span (SpanBERT, Joshi et al. 2019, arXiv 1907.10529, without its whole words): spans are
/// drawn until ceil(mask_rate x tokens that may be chosen) are chosen. A span has l tokens with a
/// probability proportional to p (1 - p)^(l - 1), p = geometric_p, l at most max_span. It begins at
/// a token drawn evenly from those that may be chosen, and ends early before one that may not be or
/// is already chosen, and where enough are chosen. One that would begin at a chosen token is drawn
/// again. All tokens of a span become mask_id, become random tokens, or stay, as above.
void mask_tokens(const TokenMasking& masking, std::int64_t sample, std::span<std::int32_t> tokens,
                 std::span<std::uint8_t> chosen);

/// The random stream of a sample: philox({position, 0, 0, 0}) has the words of a token,
/// philox({n, 1, 0, 0}) those of the n-th span, which counts from 0. The last two arguments set it
/// apart from other streams: those of dropout have a third one above 0, the others two zeros.
constexpr PhiloxKey masking_key(std::uint64_t seed, std::int64_t sample) {
    return philox_stream(seed, static_cast<std::uint64_t>(sample), 0, 0x4d4c4du);
}

}  // namespace gptrain
