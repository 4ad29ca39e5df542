// Rules of precision.frozen: formats of fewer bits.
#pragma once

#include <string>

#include "spec/run_plan.h"

namespace gptrain {

struct RunSpec;

/// Error (usage) if precision.frozen asks a training run for a format, but nothing would be kept
/// so.
void check_frozen_format(const RunSpec& spec);

/// Error (usage) if the format contradicts other keys.
void check_quantised(const RunSpec& spec, const RunPlan& plan);

/// The warning if tp cuts rows of a matrix within int8 blocks, so that scales differ from those of
/// one rank; else empty.
std::string int8_warning(const RunPlan& plan);

/// Error (usage) unless every matrix of a linear layer, and every rank's part of it, has whole
/// blocks of NF4.
void check_nf4_blocks(const RunPlan& plan);

}  // namespace gptrain
