// The step that the CPU benchmarks time: the GPT-2 124M shape on made-up tokens.
#pragma once

#include <cstdint>

#include "spec/run_spec.h"

namespace gptrain::bench {

/// Microbatches of `sequences` x `seq_length`; nothing is recomputed.
RunSpec gpt2_124m(std::int64_t sequences, std::int64_t seq_length, Precision precision);

}  // namespace gptrain::bench
