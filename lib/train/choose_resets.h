// data.reset_at_eod of a run: as the spec, its checkpoint or its data say.
#pragma once

#include "comm/mpi_session.h"
#include "spec/run_spec.h"
#include "train/resume.h"

namespace gptrain {

/// Replaces data.reset_at_eod: auto by the value that a fresh start has, and prints why where it
/// has something to do with the data: automatic_resets, and false with the objective mlm.
void choose_resets(RunSpec& spec);

/// The same for a run, on all ranks. A run that resumes keeps the value of its checkpoint, of
/// whatever version; where only copies on the nodes can be resumed, that of its spec.yaml.
void choose_resets(RunSpec& spec, const ResumeChoice& resume, const MpiSession& ranks);

}  // namespace gptrain
