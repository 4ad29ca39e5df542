// A small model with made-up weights, and the comparison of its logits.
#pragma once

#include <algorithm>
#include <catch.h>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "infer/inference.h"
#include "spec/make_plan.h"

namespace gptrain::test {

constexpr std::int64_t small_vocab = 50;

inline RunSpec small_spec(const std::string& model = "") {
    const std::string yaml =
        "name: small\noutput_dir: runs/small\n"
        "model: {num_layers: 2, hidden_size: 32, num_attention_heads: 4, vocab_size: 50" +
        model +
        "}\n"
        "data: {train: [{prefix: data/corpus}]}\n"
        "training: {seq_length: 64, steps: 10}\n";
    return parse_run_spec(yaml, "small.yaml", {});
}

/// The same with virtual tokens, which p-tuning encodes.
inline RunSpec small_spec_with(AdapterKind kind, const std::string& model = "") {
    RunSpec spec = small_spec(model);
    spec.init_from = "unused";
    spec.adapter = AdapterSpec{.kind = kind, .virtual_tokens = 11};
    if (kind == AdapterKind::p_tuning) spec.adapter->encoder_hidden_size = 6;
    return spec;
}

/// Norms behind the halves and of whole rows of q and k; parallel halves with what the ends of a
/// model can have.
inline const std::string norms_after =
    ", position_embedding: rope, normalization: rmsnorm, norm_placement: after, qk_norm: all";
inline const std::string parallel_halves =
    ", parallel_residual: two_norms, activation: geglu, embedding_norm: true, head_bias: true, "
    "embedding_scale: 2";

/// The same in int8.
inline RunSpec small_int8_spec(const std::string& model = "") {
    RunSpec spec = small_spec(model);
    spec.precision.frozen = FrozenWeights::int8;
    return spec;
}

/// Weights from -0.25 to 0.25.
inline void fill_weights(const Shard& part, std::span<float> to) {
    std::uint32_t state = static_cast<std::uint32_t>(part.elements());
    for (float& value : to) {
        state = state * 1664525 + 1013904223;
        value = static_cast<float>(state >> 8) / static_cast<float>(1 << 25) - 0.25f;
    }
}

/// Logits that differ by rounding only.
inline void check_near(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == small_vocab);
    REQUIRE(b.size() == small_vocab);
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(a[i])));
        difference = std::max(difference, std::fabs(static_cast<double>(a[i]) - b[i]));
    }
    CHECK(difference < 1e-4 * largest);
}

}  // namespace gptrain::test
