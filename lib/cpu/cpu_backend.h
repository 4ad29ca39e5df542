// The backend of x86-64 CPUs with AVX2: GEMMs by oneDNN, everything else by hand on OpenMP threads.
// Uses AVX-512 where available.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"

namespace gptrain::cpu {

/// Starts OpenMP's threads. A machine without AVX2 and FMA is an Error (usage); a system that
/// refuses threads is a std::system_error.
std::unique_ptr<Backend> make_backend();

/// CpuBackend::scratch_bytes on a machine with `threads` threads.
std::int64_t scratch_bytes(const OpLimits& limits, int threads);

}  // namespace gptrain::cpu
