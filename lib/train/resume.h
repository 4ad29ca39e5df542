// From a checkpoint back to a run.
#pragma once

#include <optional>
#include <string>

#include "backend/step_state.h"
#include "checkpoint/verify.h"
#include "train/goodput.h"
#include "train/trainer.h"

namespace gptrain {

/// The checkpoint that a run starts from, or nothing for a fresh start. `checkpoints`: the folder
/// of the run's own checkpoints. Error (usage) where the choice cannot be followed.
std::optional<ValidCheckpoint> find_start(const ResumeChoice& choice,
                                          const std::filesystem::path& checkpoints);

/// A checkpoint from a folder that a user named: a checkpoint, a checkpoints/ folder or an output
/// directory (its newest valid checkpoint). Error (usage) where there is none.
ValidCheckpoint open_checkpoint(const std::filesystem::path& folder);

/// What the trainer keeps in a manifest's "state": the carried numbers of the step state, the
/// effective spec, and the account of its time.
Json saved_state(const StepState& state, const std::string& spec_yaml,
                 const Goodput::Record& goodput);
StepState carried_state(const Manifest& manifest);
std::string saved_spec(const Manifest& manifest);
Goodput::Record saved_goodput(const Manifest& manifest);
std::int64_t saved_num_samples(const ValidCheckpoint& checkpoint);

/// Eight hexadecimal digits that change with the text.
std::string spec_hash(const std::string& spec_yaml);

}  // namespace gptrain
