// From a checkpoint back to a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "backend/step_state.h"
#include "checkpoint/restart_point.h"
#include "comm/mpi_session.h"
#include "report/goodput.h"

namespace gptrain {

/// Where a run begins.
struct ResumeChoice {
    enum class Kind {
        automatic,  ///< the newest valid checkpoint of the output directory, else a fresh start
        never,      ///< a fresh start; an output directory with checkpoints is refused
        from,       ///< this checkpoint, or the newest valid one of this output directory
    };
    Kind kind = Kind::automatic;
    std::filesystem::path folder;
};

/// Error (usage) where the choice names a folder without a checkpoint. Reads none of them.
void require_start(const ResumeChoice& choice);

/// The checkpoint that a run starts from, unless its data turn out to be damaged; nothing for a
/// fresh start. All ranks call it. `checkpoints`: the folder of the run's own checkpoints. Error
/// (usage) where the choice cannot be followed.
std::optional<RestartPoint> find_start(const ResumeChoice& choice,
                                       const std::filesystem::path& checkpoints,
                                       const MpiSession& ranks);

/// A checkpoint from a folder that a user named: a checkpoint, a checkpoints/ folder or an output
/// directory (its newest valid checkpoint). All ranks call it. Error (usage) where there is none.
RestartPoint open_checkpoint(const std::filesystem::path& folder, const MpiSession& ranks);

/// What the trainer keeps in a manifest's "state".
struct SavedRun {
    StepState state;        ///< its carried numbers
    std::string spec_yaml;  ///< effective
    TimeSpent goodput;
    Json losses;         ///< of LossSpikes
    Json interval_loss;  ///< of IntervalLoss; null in older checkpoints
};
Json to_json(const SavedRun& run);
SavedRun saved_run(const CheckpointMeta& meta);
std::int64_t saved_num_samples(const CheckpointMeta& meta);
/// The fingerprint of the tokenizer, empty without one.
std::string saved_tokenizer(const CheckpointMeta& meta);

/// The tokenizer's model in a checkpoint of a run that has one.
constexpr std::string_view checkpoint_tokenizer_name = "tokenizer.model";

/// Eight hexadecimal digits that change with the text.
std::string spec_hash(const std::string& spec_yaml);

}  // namespace gptrain
