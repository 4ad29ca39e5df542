// How a run computes in FP8: as the spec or its checkpoint say.
#pragma once

#include "comm/mpi_session.h"
#include "spec/run_spec.h"
#include "train/resume.h"

namespace gptrain {

/// Replaces precision.fp8_recipe: auto and precision.fp8_weight_gradients: auto by what the
/// checkpoint that is resumed has, and prints it where it is not what a fresh start takes. The
/// latter only if the recipe is the checkpoint's.
void choose_recipe(RunSpec& spec, const ResumeChoice& resume);
/// The same on all ranks, by the first one.
void choose_recipe(RunSpec& spec, const ResumeChoice& resume, const MpiSession& ranks);

}  // namespace gptrain
