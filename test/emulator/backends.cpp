// The backends of the op tests when they run in the emulator.
#include "ops/backends.h"

#include <cstdlib>
#include <string_view>

#include "cuda/cuda_backend.h"
#include "emulator/grid.h"

namespace gptrain {
namespace {

/// GPTRAIN_EMULATED_DEVICE=hopper emulates a GPU of compute capability 9.0. The default is 8.6,
/// which has the least shared memory of all.
bool emulates_hopper() {
    const char* name = std::getenv("GPTRAIN_EMULATED_DEVICE");
    return name != nullptr && std::string_view(name) == "hopper";
}

emulator::Settings emulated_device() {
    if (emulates_hopper())
        return {.major = 9, .minor = 0, .shared_bytes = 227 << 10, .races = true};
    return {.major = 8, .minor = 6, .shared_bytes = 99 << 10, .races = true};
}

}  // namespace

std::vector<std::unique_ptr<Backend>> built_backends() {
    emulator::settings() = emulated_device();
    std::vector<std::unique_ptr<Backend>> backends;
    backends.push_back(
        cuda::make_backend(0, {.attention = emulates_hopper() ? cuda::AttentionChoice::sm90
                                                              : cuda::AttentionChoice::automatic}));
    return backends;
}

/// True for the cases that are tested. A GPU of compute capability 9.0 has special attention
/// kernels for these alone, and runs all others like any GPU. The smaller cases are enough for
/// fp32, and for fp16, whose kernels are those of bf16 with another type.
bool is_tested(const OpCase& op) {
    constexpr double most_flops = 1.6e7;
    const OpLimits& limits = op.limits;
    const bool is_wanted = limits.compute == DType::bf16 || op.flops <= most_flops;
    if (!emulates_hopper()) return is_wanted;
    const bool has_kernels = limits.head_dim == 64 || limits.head_dim == 128;
    return is_wanted && has_kernels && limits.compute != DType::f32;
}

int repetitions([[maybe_unused]] const OpCase& op) {
#ifdef __SANITIZE_ADDRESS__
    return 1;  // orders are compared only without sanitizers, which are slow
#else
    // The kernels of fp16 are those of bf16 with another type.
    return op.limits.compute == DType::f16 ? 1 : 2;
#endif
}

void begin_repetition(int repetition) {
    using emulator::Order;
    emulator::settings().order = repetition == 0 ? Order::ascending : Order::shuffled;
    // Races show in any order.
    emulator::settings().races = repetition == 0;
}

}  // namespace gptrain
