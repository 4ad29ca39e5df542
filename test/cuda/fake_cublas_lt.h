// What a test sees of the library that stands in for cuBLASLt, beside its functions.
#pragma once

#include <cstdint>

/// The algorithms that it holds for every product that it can do, its first choice first.
enum FakeAlgorithm { fake_slow = 1, fake_refused = 2, fake_fast = 3 };

enum FakeKind { fake_plain, fake_with_epilogue };

/// How often this process has asked it to run a product with the algorithm, or of the kind.
extern "C" std::int64_t fake_cublas_lt_runs(FakeAlgorithm algorithm);
extern "C" std::int64_t fake_cublas_lt_runs_of(FakeKind kind);
/// From now on each product of the kind takes so much longer.
extern "C" void fake_cublas_lt_delay(FakeKind kind, std::int64_t milliseconds);
/// From now on it refuses the slow one too, so that no choice hangs on the time that a run takes.
extern "C" void fake_cublas_lt_refuse_slow();
