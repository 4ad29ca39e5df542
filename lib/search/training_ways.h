// The ways to train a given model on a machine: all of its weights or an adapter, with fewer bytes
// of state or with state in host memory. Answers "what can I train here?".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "search/search.h"

namespace gptrain {

/// A way to train a model that exists.
struct TrainingWay {
    std::string_view word;   ///< names it on a command line: "lora"
    std::string_view words;  ///< in a table: "LoRA"
    void (*apply)(RunSpec& spec);
};

/// All ways, the one that takes the most memory first.
std::span<const TrainingWay> training_ways();

/// The ways' words with commas between them, for messages.
std::string way_words();
/// The way with this word; nullptr if there is none.
const TrainingWay* find_way(std::string_view word);

/// A machine with room for a run. All arguments outlive it.
struct WayMachine {
    PlanTarget target;
    const BackendMemory& needs;
    const HardwareProfile& hardware;
    double capacity = 0;       ///< bytes for one rank, with the reserve for libraries
    double host_capacity = 0;  ///< bytes of host memory for the ranks of a node; 0: unknown

    /// Host memory that a rank may take; none: unknown.
    std::optional<double> host_share() const;
};

/// How a model is trained in one way on a machine.
struct WayOutcome {
    const TrainingWay* way = nullptr;
    std::optional<Found> fastest;  ///< at the base's seq_length; empty if nothing fits
    /// The base with the way's settings and, if anything fits, those of the fastest.
    RunSpec spec;
    std::int64_t bytes = 0;       ///< that a rank needs for it, or at least if nothing fits
    std::int64_t host_bytes = 0;  ///< of host memory, the same way; 0 on a CPU
    /// The longest sequence that fits, one at a time and with full recomputation: a multiple of
    /// sequence_step up to the model's max_position_embeddings; 0: not even sequence_step tokens.
    std::int64_t longest = 0;
    std::string refused;  ///< why the program cannot train so; else empty
};
constexpr std::int64_t sequence_step = 256;

/// Tries a way for `base`, which has the model, training.seq_length and a global batch.
WayOutcome try_way(const TrainingWay& way, const RunSpec& base, const WayMachine& machine);

/// A table of outcomes with one line for each.
std::string to_text(std::span<const WayOutcome> outcomes, const WayMachine& machine);

}  // namespace gptrain
