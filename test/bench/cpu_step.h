// The CPU benchmarks have a step, the GPT-2 124M shape on made-up tokens, and a command line in
// common.
#pragma once

#include <cstdint>
#include <functional>

#include "base/json.h"
#include "spec/run_spec.h"

namespace gptrain::bench {

/// Microbatches of `sequences` x `seq_length`; nothing is recomputed.
RunSpec gpt2_124m(std::int64_t sequences, std::int64_t seq_length, Precision precision);

/// Sequences, their length, the precision and the number of timed steps to results.
using MeasureSteps = std::function<Json(std::int64_t, std::int64_t, Precision, std::int64_t steps)>;

/// The main function of `program`, whose arguments are SEQUENCES SEQ_LENGTH fp32|bf16 [STEPS]:
/// prints the results as one line. Returns the exit code.
int measure_steps(const char* program, int argc, char** argv, const MeasureSteps& measure);

}  // namespace gptrain::bench
