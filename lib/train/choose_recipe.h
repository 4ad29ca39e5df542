// precision.fp8_recipe of a run: as the spec or its checkpoint say.
#pragma once

#include "comm/mpi_session.h"
#include "spec/run_spec.h"
#include "train/resume.h"

namespace gptrain {

/// Replaces precision.fp8_recipe: auto by the recipe of the checkpoint that is resumed, and prints
/// it unless that is tensor, the recipe of a fresh start.
void choose_recipe(RunSpec& spec, const ResumeChoice& resume);
/// The same on all ranks, by the first one.
void choose_recipe(RunSpec& spec, const ResumeChoice& resume, const MpiSession& ranks);

}  // namespace gptrain
