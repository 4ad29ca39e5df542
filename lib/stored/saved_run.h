// The trainer's part of a checkpoint: what a manifest records of the run.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "backend/step_state.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "comm/mesh.h"
#include "data/continued_data.h"
#include "metrics/goodput.h"

namespace gptrain {

/// The trainer's state in a manifest's "state".
struct SavedRun {
    StepState state;        ///< the values that are carried over
    std::string spec_yaml;  ///< the effective spec
    TimeSpent goodput;
    Json losses;              ///< from LossSpikes
    Json interval_loss;       ///< from IntervalLoss; null in older checkpoints
    Json expert_slices = {};  ///< from ExpertSlices; null in most checkpoints
    double save_seconds = 0;  ///< that a save takes; 0 if unknown, as in older ones
    /// In local copies: the newest checkpoint of the output directory when they were made, if any.
    std::optional<std::int64_t> newest_checkpoint = {};
    /// Of a run with parallel.peer: auto.
    std::optional<PeerAxes> peer_axes = {};
    bool weights_only = false;  ///< an imported model: no optimizer state, no run to resume
};
/// In a checkpoint, record_save_time overwrites `save_seconds`, the time of an earlier save.
Json to_json(const SavedRun& run);
/// SaverOptions.record_time.
void record_save_time(CheckpointMeta& meta, double seconds);
SavedRun saved_run(const CheckpointMeta& meta);
/// Axes as an array of names, and read back; Error (bad_input) names `source`.
Json to_json(const PeerAxes& list);
PeerAxes peer_axes(const Json& names, const std::string& source);
/// The training data, as far as it has been read. Error (bad_input) if a number is out of range.
SavedData saved_data(const CheckpointMeta& meta);
/// The fingerprint of the tokenizer, empty if the run has none.
std::string saved_tokenizer(const CheckpointMeta& meta);

/// The fingerprint of the model that the checkpoint's adapter adapts.
std::string adapted_fingerprint(const CheckpointMeta& meta);

/// Names that the tokenizer's file may have in a checkpoint (tokenizer_file_name); absent if the
/// run has no tokenizer.
constexpr std::array<std::string_view, 2> checkpoint_tokenizer_names = {"tokenizer.model",
                                                                        "tokenizer.json"};

/// Eight hexadecimal digits, a hash of the text.
std::string spec_hash(const std::string& spec_yaml);

}  // namespace gptrain
