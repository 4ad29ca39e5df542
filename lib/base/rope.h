// The angles of rotary position embedding, with the ways to stretch them to longer texts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>

namespace gptrain {

enum class RopeScalingKind { linear, llama3, yarn };

/// Stretches the positions of a model that was trained on texts of
/// original_max_position_embeddings tokens.
struct RopeScaling {
    RopeScalingKind kind = RopeScalingKind::linear;
    double factor = 1;                                  ///< longest text / original one
    std::int64_t original_max_position_embeddings = 0;  ///< llama3, yarn
    double low_freq_factor = 1;   ///< llama3: longer waves than original / this are stretched
    double high_freq_factor = 4;  ///< llama3: shorter waves than original / this stay
    double beta_fast = 32;        ///< yarn: waves with more turns in the original length stay
    double beta_slow = 1;         ///< yarn: waves with fewer turns are stretched
    /// yarn: factor of cosine and sine; empty: 0.1 ln(factor) + 1.
    std::optional<double> attention_factor = {};

    bool operator==(const RopeScaling&) const = default;
};

/// The rotations of heads with D features: pair i < D / 2 turns by position x frequency(i), and its
/// cosine and sine are multiplied by amplitude().
///  - none: frequency(i) = theta^(-2 i / D)
///  - linear: that / factor (Chen et al. 2023, arXiv 2306.15595)
///  - llama3: by wave length, with a smooth step in between (Llama 3.1's model code)
///  - yarn: by number of turns, with a linear ramp in between (Peng et al. 2023, arXiv 2309.00071)
class RopeAngles {
public:
    RopeAngles(double theta, std::int64_t head_dim, const std::optional<RopeScaling>& scaling)
        : theta_(theta), dim_(static_cast<double>(head_dim)), scaling_(scaling) {}

    double frequency(std::int64_t i) const {
        const double plain = std::pow(theta_, -2.0 * static_cast<double>(i) / dim_);
        if (!scaling_) return plain;
        const double kept = share_kept(i, plain);
        return kept * plain + (1 - kept) * plain / scaling_->factor;
    }

    double amplitude() const {
        if (!scaling_ || scaling_->kind != RopeScalingKind::yarn) return 1;
        return scaling_->attention_factor.value_or(
            scaling_->factor > 1 ? 0.1 * std::log(scaling_->factor) + 1 : 1);
    }

private:
    /// 1: the frequency stays; 0: it is divided by the factor.
    double share_kept(std::int64_t i, double plain) const {
        switch (scaling_->kind) {
            case RopeScalingKind::linear: return 0;
            case RopeScalingKind::llama3: return kept_by_length(2 * std::numbers::pi / plain);
            case RopeScalingKind::yarn: return kept_by_turns(static_cast<double>(i));
        }
        return 1;
    }

    double original() const {
        return static_cast<double>(scaling_->original_max_position_embeddings);
    }

    double kept_by_length(double wave) const {
        const double low = scaling_->low_freq_factor;
        const double share = (original() / wave - low) / (scaling_->high_freq_factor - low);
        return std::clamp(share, 0.0, 1.0);
    }

    /// The pair that makes `turns` turns in the original length.
    double pair_with(double turns) const {
        return dim_ * std::log(original() / (turns * 2 * std::numbers::pi)) /
               (2 * std::log(theta_));
    }

    double kept_by_turns(double pair) const {
        const double first = std::max(std::floor(pair_with(scaling_->beta_fast)), 0.0);
        const double last = std::min(std::ceil(pair_with(scaling_->beta_slow)), dim_ - 1);
        // A ramp of no length would divide by 0.
        const double length = last == first ? 0.001 : last - first;
        return 1 - std::clamp((pair - first) / length, 0.0, 1.0);
    }

    double theta_;
    double dim_;
    std::optional<RopeScaling> scaling_;
};

}  // namespace gptrain
