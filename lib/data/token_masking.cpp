#include "data/token_masking.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace gptrain {
namespace {

/// The fate of a chosen token.
enum class Fate { mask, random, keep };

constexpr double word_values = 4294967296.0;  // different values of a random word

/// True for the fraction `share` of all words.
bool is_below(std::uint32_t word, double share) {
    return word < share * word_values;
}

/// A word as an index below `count`.
std::int64_t index_of(std::uint32_t word, std::int64_t count) {
    return static_cast<std::int64_t>((std::uint64_t{word} * static_cast<std::uint64_t>(count)) >>
                                     32);
}

/// For each length of a span from 1 on, the sum of the weights up to there.
std::vector<double> sums_of_lengths(const MlmSpec& rule) {
    std::vector<double> sums;
    double weight = rule.geometric_p;
    for (std::int64_t length = 1; length <= rule.max_span; ++length) {
        sums.push_back((sums.empty() ? 0 : sums.back()) + weight);
        weight *= 1 - rule.geometric_p;
    }
    return sums;
}

std::int64_t length_of(std::uint32_t word, const std::vector<double>& sums) {
    const double at = word / word_values * sums.back();
    return 1 + (std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
}

/// One sequence.
class Masker {
public:
    Masker(const TokenMasking& masking, std::int64_t sample, std::span<std::int32_t> tokens)
        : masking_(masking), key_(masking_key(masking.seed, sample)), tokens_(tokens) {}

    void choose_tokens(std::span<std::uint8_t> chosen) const {
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            const PhiloxBlock random = token_words(i);
            chosen[i] = chosen[i] != 0 && is_below(random[0], masking_.rule.mask_rate) ? 1 : 0;
            if (chosen[i] != 0) replace(i, fate_of(random[1]));
        }
    }

    void choose_spans(std::span<std::uint8_t> chosen) const {
        const std::vector<double> sums = sums_of_lengths(masking_.rule);
        std::vector<std::uint8_t> open(chosen.begin(), chosen.end());
        std::vector<std::size_t> places;
        for (std::size_t i = 0; i < open.size(); ++i)
            if (open[i] != 0) places.push_back(i);
        std::fill(chosen.begin(), chosen.end(), std::uint8_t{0});
        auto left = static_cast<std::int64_t>(
            std::ceil(masking_.rule.mask_rate * static_cast<double>(places.size())));
        for (std::uint32_t n = 0; left > 0; ++n) {
            const PhiloxBlock random = philox({n, 1, 0, 0}, key_);
            const std::int64_t length = std::min(length_of(random[0], sums), left);
            const Fate fate = fate_of(random[2]);
            const std::size_t first =
                places[static_cast<std::size_t>(index_of(random[1], std::ssize(places)))];
            const std::size_t end = std::min(first + static_cast<std::size_t>(length), open.size());
            for (std::size_t i = first; i < end && open[i] != 0; ++i, --left) {
                open[i] = 0;
                chosen[i] = 1;
                replace(i, fate);
            }
        }
    }

private:
    PhiloxBlock token_words(std::size_t position) const {
        return philox({static_cast<std::uint32_t>(position), 0, 0, 0}, key_);
    }

    Fate fate_of(std::uint32_t word) const {
        const MlmSpec& rule = masking_.rule;
        if (is_below(word, rule.mask_share)) return Fate::mask;
        return is_below(word, rule.mask_share + rule.random_share) ? Fate::random : Fate::keep;
    }

    void replace(std::size_t i, Fate fate) const {
        if (fate == Fate::mask) tokens_[i] = static_cast<std::int32_t>(*masking_.rule.mask_id);
        if (fate != Fate::random) return;
        tokens_[i] = static_cast<std::int32_t>(index_of(token_words(i)[2], masking_.vocab_size));
    }

    const TokenMasking& masking_;
    PhiloxKey key_;
    std::span<std::int32_t> tokens_;
};

}  // namespace

void mask_tokens(const TokenMasking& masking, std::int64_t sample, std::span<std::int32_t> tokens,
                 std::span<std::uint8_t> chosen) {
    GPTRAIN_CHECK(masking.rule.mask_id && tokens.size() == chosen.size(), tokens.size());
    const Masker masker(masking, sample, tokens);
    masking.rule.masking == Masking::span ? masker.choose_spans(chosen)
                                          : masker.choose_tokens(chosen);
}

}  // namespace gptrain
