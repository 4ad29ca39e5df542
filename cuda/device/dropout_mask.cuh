// Dropout on the device: draws exactly the masks of backend/dropout.h where they are needed.
#pragma once

#include "backend/dropout.h"
#include "cuda/device/device.cuh"

namespace gptrain::cuda {

/// A Dropout as a kernel argument. With probability 0 it is off and reads nothing.
struct DropoutParams {
    const StepState* state = nullptr;              ///< null: off
    const std::int64_t* first_sequence = nullptr;  ///< first sequence of the slot
    std::uint64_t seed = 0;
    DropoutSite site = DropoutSite::embedding;
    std::uint32_t layer = 0;
    std::uint32_t threshold = 0;  ///< words from this value on are kept
    float scale = 1;              ///< factor for kept values
    RowPositions rows;
    std::int64_t head_begin = 0;

    DropoutParams() = default;
    explicit DropoutParams(const Dropout& dropout) {
        if (dropout.probability == 0) return;
        const StepRef& step = dropout.step;
        state = reinterpret_cast<const StepState*>(step.state.as<std::uint8_t>());
        first_sequence = step.first_sequence.as<std::int64_t>() + step.slot;
        seed = dropout.seed;
        site = dropout.site;
        layer = dropout.layer;
        threshold = dropout_threshold(dropout.probability);
        scale = static_cast<float>(1 / (1 - static_cast<double>(dropout.probability)));
        rows = dropout.rows;
        head_begin = dropout.head_begin;
    }

    __host__ __device__ bool on() const { return state != nullptr; }
    /// The Philox key of this step; a thread makes it once for all its draws.
    __device__ PhiloxKey key() const { return dropout_key(seed, state->step, site, layer); }
};

/// Dropout over the features of [B, S, H]. Each thread makes one and uses it for all its rows.
class FeatureDropout {
public:
    __device__ explicit FeatureDropout(const DropoutParams& params) : params_(params) {
        if (!params.on()) return;
        key_ = params.key();
        first_sequence_ = *params.first_sequence;
    }

    /// Position of a row: token `position` of sequence `sequence`.
    struct Row {
        std::int64_t sequence = 0;
        std::int64_t position = 0;
    };
    __device__ Row row(int token, int seq_length) const {
        if (!params_.on()) return {};
        return {first_sequence_ + token / seq_length, params_.rows.position(token % seq_length)};
    }

    /// x[i] *= factor of feature `feature` + i. `feature` and `count` are multiples of 4.
    template <int count>
    __device__ void drop(const Row& row, int feature, float (&x)[count]) const {
        static_assert(count % 4 == 0);
        if (!params_.on()) return;
        for (int i = 0; i < count; i += 4) {
            const PhiloxBlock words =
                dropout_words(key_, row.sequence, row.position, 0, (feature + i) / 4);
            for (int j = 0; j < 4; ++j) {
                const bool kept = words[static_cast<std::size_t>(j)] >= params_.threshold;
                x[i + j] = x[i + j] * (kept ? params_.scale : 0.0f);
            }
        }
    }

private:
    const DropoutParams& params_;
    PhiloxKey key_{};
    std::int64_t first_sequence_ = 0;
};

}  // namespace gptrain::cuda
