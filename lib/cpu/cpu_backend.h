// The backend of x86-64 CPUs with AVX2: products by oneDNN, everything else by hand over OpenMP
// threads; faster where there is AVX-512.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"

namespace gptrain {

/// Starts the threads that OpenMP uses. A machine without AVX2 and FMA is an Error (usage); a
/// system that gives no threads is a std::system_error.
std::unique_ptr<Backend> make_cpu_backend();

/// What CpuBackend::scratch_bytes returns on a machine with that many threads.
std::int64_t cpu_scratch_bytes(const OpLimits& limits, int threads);

}  // namespace gptrain
