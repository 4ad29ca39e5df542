// The keys of model.experts, as a user gives them: layers whose mlp is many experts, of which a
// router chooses some for each token.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/router.h"

namespace gptrain {

/// The layers with experts in place of an mlp.
struct ExpertLayers {
    std::int64_t first_dense = 0;         ///< layers before this one have none
    std::int64_t every = 1;               ///< layer i has them if every divides i + 1
    std::vector<std::int64_t> list = {};  ///< unless empty: these layers, ascending, and no others

    bool has(std::int64_t layer) const;
    bool operator==(const ExpertLayers&) const = default;
};

/// An mlp beside the experts that every token uses.
struct SharedExpertSpec {
    std::int64_t ffn_hidden_size = 0;
    bool gate = false;  ///< its output is multiplied by the sigmoid of a logit of the token

    bool operator==(const SharedExpertSpec&) const = default;
};

struct RouterGroupsSpec {
    std::int64_t count = 0;
    std::int64_t keep = 0;

    bool operator==(const RouterGroupsSpec&) const = default;
};

struct RouterSpec {
    RouterScore score = RouterScore::softmax;
    bool normalize = true;
    double scale = 1.0;
    bool logit_bias = false;
    std::optional<RouterGroupsSpec> groups = {};

    bool operator==(const RouterSpec&) const = default;
};

/// How experts get equal shares of the tokens.
struct BalanceSpec {
    std::optional<double> bias_rate = 1.0e-3;  ///< empty: the choice has no bias
    double aux_weight = 0;                     ///< of the balance loss of a microbatch
    double sequence_aux_weight = 1.0e-4;       ///< of the balance loss of a sequence
    double z_weight = 1.0e-4;                  ///< of the z-loss

    bool operator==(const BalanceSpec&) const = default;
};

struct ExpertsSpec {
    std::int64_t count = 0;
    std::int64_t per_token = 0;
    std::int64_t ffn_hidden_size = 0;
    bool bias = false;  ///< of fc, gate and proj; the shared expert has none
    std::optional<SharedExpertSpec> shared = {};
    ExpertLayers layers = {};
    /// Of an expert axis: the largest part of a rank's rows that a message to one rank holds, over
    /// an equal share.
    double load = 1.5;
    RouterSpec router = {};
    BalanceSpec balance = {};
    /// Standard deviation of what is added to each copy of an mlp that an expert starts as.
    double upcycling_noise = 0;

    RouterRule rule() const;
    /// The most rows that `tokens` tokens of a rank can have for one of `ranks` ranks that divide
    /// the experts among them.
    std::int64_t most_rows(std::int64_t tokens, std::int64_t ranks) const;
    /// Rows of the message to each of them, for all tokens at once.
    std::int64_t message_rows(std::int64_t tokens, std::int64_t ranks) const;
    /// The fewest slices of the tokens, each sent alone, whose rows always fit in such messages.
    std::int64_t most_slices(std::int64_t tokens, std::int64_t ranks) const;
    bool operator==(const ExpertsSpec&) const = default;
};

}  // namespace gptrain
