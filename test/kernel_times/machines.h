// What a multiprocessor of each GPU does in a cycle.
#pragma once

#include <string>
#include <string_view>

#include "hardware/load_profile.h"

namespace gptrain::test {

// Sources
//   [datasheet]  the peak of configs/hardware divided by multiprocessors and the clock of the same
//                data sheet: 1.41 GHz (A100), 1.83 GHz (H100), 1.85 GHz (B200)
//   [guide]      CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions",
//                compute capabilities 8.0, 9.0 and 10.0
//   [tuning]     CUDA's tuning guides for Ampere, Hopper and Blackwell: four schedulers, each of
//                which issues one instruction of a warp in a cycle
//   [luo]        Luo et al. 2024, arXiv 2402.13499: on Hopper mma.sync reaches 62.9 % of the peak
//                on average
//   [fa2]        FlashAttention 2, which uses mma.sync, has about the rate on GB200 that it has on
//                H100: Azure/AI-benchmarking-guide, ND_GB200_v6_results.md, 374 TFLOP/s

/// Per cycle and multiprocessor.
struct Machine {
    std::string_view profile;       ///< in configs/hardware
    std::string_view architecture;  ///< that its portable kernels are compiled for
    double tensor_flops;            ///< bf16, dense [datasheet]
    double warp_flops;              ///< of those by instructions of a single warp (mma.sync)
    double fma_lanes;               ///< fp32 arithmetic [guide]
    double alu_lanes = 64;          ///< integers, comparisons, conversions to bf16 [guide]
    double mufu_lanes = 16;         ///< exponentials and reciprocals [guide]
    double issued = 4;              ///< instructions of a warp [tuning]
    double shared_wavefronts = 1;   ///< 32 banks of 4 bytes [guide]
    bool hopper_kernels = false;    ///< attention for sm_90a
};

constexpr Machine machines[] = {
    {.profile = "a100-80gb",
     .architecture = "sm_80",
     .tensor_flops = 2048,
     .warp_flops = 2048,
     .fma_lanes = 64},
    {.profile = "h100-sxm",
     .architecture = "sm_90a",
     .tensor_flops = 4096,
     .warp_flops = 0.629 * 4096,  // [luo]
     .fma_lanes = 128,
     .hopper_kernels = true},
    {.profile = "h200-sxm",
     .architecture = "sm_90a",
     .tensor_flops = 4096,
     .warp_flops = 0.629 * 4096,  // [luo]
     .fma_lanes = 128,
     .hopper_kernels = true},
    {.profile = "b200",
     .architecture = "sm_100",
     .tensor_flops = 8192,
     .warp_flops = 0.629 * 4096,  // as on Hopper, by [fa2]; nothing better is published
     .fma_lanes = 128},
};

/// A machine with its profile.
struct Gpu {
    explicit Gpu(const Machine& kind)
        : machine(kind), hardware(load_profile(std::string(kind.profile))) {}

    /// Cycles of all multiprocessors in a second: the peak is a number of FLOPs per cycle.
    double cycles() const { return hardware.device.peak_flops.bf16 / machine.tensor_flops; }
    double bandwidth() const {
        return hardware.device.memory_bandwidth * hardware.device.memory_efficiency;
    }

    const Machine& machine;
    HardwareProfile hardware;
};

}  // namespace gptrain::test
