// The ways in which a machine can train a model that exists, for `gptrain plan --model` and
// `gptrain new --model`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "search/training_ways.h"

namespace gptrain {

/// Adds --model, which is described as `description`, and --host-memory, which needs it. Returns
/// the former.
CLI::Option* add_model(CLI::App& command, std::string& model, std::string& host_memory,
                       const std::string& description);

/// A model's folder and the machine for it.
struct WaysQuestion {
    std::string model;        ///< of Hugging Face's transformers; its config.json is enough
    std::string host_memory;  ///< of a node, "64GB"; empty: as the profile says
    HardwareProfile hardware;
    double headroom = 0;  ///< share of the device's memory to leave free
    std::int64_t ranks = 1;
    std::int64_t seq_length = 0;  ///< 0: tuning_length, or the model's positions if those are fewer
};

/// The usual length of samples to fine-tune with.
constexpr std::int64_t tuning_length = 2048;
/// Sequences of a step on each rank.
constexpr std::int64_t tuning_batch = 16;

struct WaysAnswer {
    RunSpec base;  ///< the model and the batch, without the settings of a way
    std::vector<WayOutcome> outcomes;
    std::string table;
};

/// Tries the ways with these words, or all if there are none. Error (usage, bad_input) for a
/// config.json that cannot be read, and for a way that there is not.
WaysAnswer try_ways(const WaysQuestion& question, const std::string& way);

}  // namespace gptrain
