// From a checkpoint back to a run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "backend/step_state.h"
#include "checkpoint/verify.h"
#include "train/trainer.h"

namespace gptrain {

/// The checkpoints that a run may start from, the one to try first in front; none for a fresh
/// start. `checkpoints`: the folder of the run's own checkpoints. Error (usage) where the choice
/// cannot be followed.
std::vector<std::filesystem::path> start_candidates(const ResumeChoice& choice,
                                                    const std::filesystem::path& checkpoints);

/// A checkpoint from a folder that a user named: a checkpoint, a checkpoints/ folder or an output
/// directory (its newest valid checkpoint). Error (usage) where there is none.
ValidCheckpoint open_checkpoint(const std::filesystem::path& folder);

/// What the trainer keeps in a manifest's "state": the carried numbers of the step state, and the
/// effective spec.
Json saved_state(const StepState& state, const std::string& spec_yaml);
StepState carried_state(const CheckpointMeta& meta);
std::string saved_spec(const CheckpointMeta& meta);
std::int64_t saved_num_samples(const CheckpointMeta& meta);

/// Eight hexadecimal digits that change with the text.
std::string spec_hash(const std::string& spec_yaml);

}  // namespace gptrain
