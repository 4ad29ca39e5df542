// Finds the checkpoint to resume from and reads the trainer's part of it.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "backend/step_state.h"
#include "checkpoint/restart_point.h"
#include "comm/mpi_session.h"
#include "data/continued_data.h"
#include "report/goodput.h"

namespace gptrain {

/// Where a run starts.
struct ResumeChoice {
    enum class Kind {
        automatic,  ///< the newest valid checkpoint of the output directory, else a fresh start
        never,      ///< a fresh start; an Error if the output directory has checkpoints
        from,       ///< this checkpoint, or the newest valid one of this output directory
    };
    Kind kind = Kind::automatic;
    std::filesystem::path folder;
};

/// Error (usage) if the choice names a folder without a checkpoint. Reads no checkpoint.
void check_start(const ResumeChoice& choice);

/// The checkpoint to start from, nothing for a fresh start. Loading may still find that its data is
/// damaged. All ranks call it. `checkpoints`: the folder of the run's own checkpoints. `copies`:
/// for an automatic choice the run's newest local copies, which serve if they are newer than the
/// newest whole checkpoint. Error (usage) if the choice cannot be followed.
std::optional<RestartPoint> find_start(const ResumeChoice& choice,
                                       const std::filesystem::path& checkpoints,
                                       const MpiSession& ranks,
                                       std::optional<LocalRestart> copies = {});

/// The checkpoint in a folder named by the user: a checkpoint, a checkpoints/ folder or an output
/// directory (of these, the newest valid checkpoint). All ranks call it. Error (usage) if there is
/// none.
RestartPoint open_checkpoint(const std::filesystem::path& folder, const MpiSession& ranks);

/// The trainer's state in a manifest's "state".
struct SavedRun {
    StepState state;        ///< the values that are carried over
    std::string spec_yaml;  ///< the effective spec
    TimeSpent goodput;
    Json losses;              ///< from LossSpikes
    Json interval_loss;       ///< from IntervalLoss; null in older checkpoints
    double save_seconds = 0;  ///< that a save takes; 0 if unknown, as in older ones
    /// In local copies: the newest checkpoint of the output directory when they were made, if any.
    std::optional<std::int64_t> newest_checkpoint = {};
    bool weights_only = false;  ///< an imported model: no optimizer state, no run to resume
};
/// In a checkpoint, record_save_time overwrites `save_seconds`, the time of an earlier save.
Json to_json(const SavedRun& run);
/// SaverOptions.record_time.
void record_save_time(CheckpointMeta& meta, double seconds);
SavedRun saved_run(const CheckpointMeta& meta);
/// Error (usage) if the checkpoint has no run to resume, with what to do instead.
void require_resumable(const RestartPoint& checkpoint);
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
