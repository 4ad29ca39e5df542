// What kernels see of a GPU from sm_80 on: each function is one instruction, or one of the
// compiler's own. Kernels contain no assembly and no other CUDA header, so that the host compiler
// can build them too: the emulator has a twin of this file in which every function checks how it is
// used. Rules for kernels:
//  - Blocks are one-dimensional. Functions that say "warp" are called by all 32 threads of a warp
//    together, those that say "block" by all threads of the block.
//  - Shared memory is one struct from shared_memory<T>(). Global memory is read and written by
//    load and store, or plainly through pointers to single elements.
//  - a * b + c is never fused; what should be is written fma(a, b, c).
#pragma once

// Parts of this file, which nobody else includes.
#include "cuda/device/arithmetic.cuh"
#include "cuda/device/global_memory.cuh"
#include "cuda/device/place.cuh"
#include "cuda/device/threads.cuh"
#include "cuda/device/values.cuh"
#include "cuda/device/warp_products.cuh"
