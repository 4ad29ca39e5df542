#include "device.h"

#include <omp.h>

#include "base/error.h"
#include "base/log.h"
#include "cpu/cpu_backend.h"
#include "cuda/cuda_backend.h"
#include "cuda/probe.h"

namespace gptrain {
namespace {

/// The GPU of the only rank.
constexpr int first_device = 0;

}  // namespace

std::string_view built_backends() {
    const bool cuda = probe_cuda(first_device).state != CudaState::not_built;
    return cuda ? "cpu and cuda backends" : "cpu backend";
}

bool would_use_cuda(DeviceChoice choice) {
    if (choice == DeviceChoice::cpu) return false;
    const CudaProbe probe = probe_cuda(first_device);
    if (choice == DeviceChoice::automatic) return probe.state == CudaState::usable;
    if (probe.state == CudaState::not_built)
        fail(ExitCode::usage, "device: cuda: ", probe.why, "; set it to cpu or auto");
    return true;
}

Device open_device(DeviceChoice choice, const std::filesystem::path& cache) {
    if (would_use_cuda(choice)) {
        CudaOptions options = options_of_environment();
        options.tune_products = !cache.empty();
        options.tuning_folder = cache;
        return {.backend = make_cuda_backend(first_device, options), .cuda = true};
    }
    if (choice == DeviceChoice::automatic) {
        const CudaProbe probe = probe_cuda(first_device);
        if (probe.state == CudaState::unusable) warn("device: auto takes the CPU: ", probe.why);
    }
    return {.backend = make_cpu_backend(), .cuda = false};
}

BackendNeeds device_needs(DeviceChoice choice) {
    if (would_use_cuda(choice)) return cuda_needs();
    return {.scratch = [](const OpLimits& limits) {
        return cpu_scratch_bytes(limits, omp_get_max_threads());
    }};
}

}  // namespace gptrain
