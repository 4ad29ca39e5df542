// Functions with which tests observe and control the stand-in for cuBLASLt, in addition to
// cuBLASLt's own.
#pragma once

#include <cstdint>

#include "cuda/fake_algorithms.h"

enum FakeKind { fake_plain, fake_with_epilogue };

/// How often this process ran a GEMM with this algorithm, or of this kind.
extern "C" std::int64_t fake_cublas_lt_runs(FakeAlgorithm algorithm);
extern "C" std::int64_t fake_cublas_lt_runs_of(FakeKind kind);
/// How many different GEMMs this process ran: the library loads code for each.
extern "C" std::int64_t fake_cublas_lt_loads();
/// From now on each GEMM of this kind takes this much longer.
extern "C" void fake_cublas_lt_delay(FakeKind kind, std::int64_t milliseconds);
/// If `refuse`, the library also refuses the slow algorithm from now on, so that no choice depends
/// on measured times.
extern "C" void fake_cublas_lt_refuse_slow(bool refuse);

/// The calls that return a status, except those that destroy.
enum FakeCall {
    fake_create,
    fake_desc_create,
    fake_desc_set,
    fake_layout_create,
    fake_preference_create,
    fake_preference_set,
    fake_heuristic,
    fake_check,
    fake_matmul,
};

/// The status that the call returns from now on for GEMMs of this kind; CUBLAS_STATUS_SUCCESS: the
/// status that it finds. Calls that do not know the GEMM's epilogue, or not yet, are of the plain
/// kind.
extern "C" void fake_cublas_lt_answer(FakeCall call, FakeKind kind, int status);
