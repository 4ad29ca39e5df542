// The GPU as kernels see it, from sm_80 on. Each function is one instruction or compiler intrinsic.
// Kernels contain no assembly and include no other CUDA header, so the host compiler can build them
// too: the emulator has a twin of this file whose functions check how they are used. Rules for
// kernels:
//  - Blocks are one-dimensional. All 32 threads of a warp call functions named "warp" together; all
//    threads of the block call those named "block".
//  - Shared memory is one struct from shared_memory<T>(). Access global memory with load and store,
//    or through plain pointers to single elements.
//  - a * b + c is never fused; write fma(a, b, c) where it should be.
#pragma once

// Parts of this file; include them only from here.
#include "cuda/device/arithmetic.cuh"
#include "cuda/device/global_memory.cuh"
#include "cuda/device/indices.cuh"
#include "cuda/device/threads.cuh"
#include "cuda/device/values.cuh"
#include "cuda/device/warp_mma.cuh"
