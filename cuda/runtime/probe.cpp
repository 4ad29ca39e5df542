#include "cuda/runtime/probe.h"

#include <cstdlib>
#include <cuda_runtime.h>
#include <fstream>
#include <string_view>

#include "base/log.h"

namespace gptrain::cuda {
namespace {

/// The oldest compute capability (major) that kernels are compiled for.
constexpr int min_major = 8;

int capability(cudaDeviceAttr which, int device) {
    int value = 0;
    static_cast<void>(cudaDeviceGetAttribute(&value, which, device));
    return value;
}

DeviceProbe unusable(std::string reason) {
    // Clear the error, or the next call reports it again.
    static_cast<void>(cudaGetLastError());
    return {DeviceState::unusable, std::move(reason)};
}

}  // namespace

void set_cuda_environment() {
    constexpr const char* name = "CUDA_MODULE_LOADING";
    constexpr const char* queues = "CUDA_DEVICE_MAX_CONNECTIONS";
    const char* before = std::getenv(name);
    // Done, perhaps before there were threads that read the environment.
    if (before != nullptr && std::string_view(before) == "EAGER" && std::getenv(queues) != nullptr)
        return;
    if (before != nullptr && std::string_view(before) == "LAZY") {
        warn(name,
             "=LAZY is ignored: loading a kernel at its first launch could wait forever; unset it");
    }
    constexpr int overwrite = 1;
    setenv(name, "EAGER", overwrite);
    // A queue for each stream: those of computation, copies, each communicator and NCCL's own. With
    // the 8 that are the default, a kernel may wait behind another stream's message.
    constexpr int only_if_not_set = 0;
    setenv(queues, "32", only_if_not_set);
}

int driver_version() {
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

std::string device_name(int device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
        // Clear the error, or the next call reports it again.
        static_cast<void>(cudaGetLastError());
        return "";
    }
    std::string name = text(properties.name, ' ');
    for (const char byte : properties.uuid.bytes) {
        constexpr std::string_view digits = "0123456789abcdef";
        const auto value = static_cast<unsigned char>(byte);
        name += {digits[value / 16], digits[value % 16]};
    }
    return name;
}

std::string driver_text() {
    std::ifstream file("/proc/driver/nvidia/version");
    std::string first_line;
    std::getline(file, first_line);
    return first_line;
}

DeviceProbe probe_device(int device) {
    set_cuda_environment();
    const int driver = driver_version();
    if (driver == 0) return {DeviceState::no_driver, "there is no NVIDIA driver on this machine"};
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver) {
        return unusable(text("the NVIDIA driver is too old: it supports CUDA ",
                             cuda_version_text(driver), ", but this program needs ",
                             cuda_version_text(CUDART_VERSION), "; install a newer driver"));
    }
    if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
        return unusable(
            "this process sees no GPU (nvidia-smi lists all GPUs; CUDA_VISIBLE_DEVICES may hide "
            "them)");
    }
    if (status != cudaSuccess)
        return unusable(text("the NVIDIA driver reports: ", cudaGetErrorString(status)));
    if (device >= count)
        return unusable(
            text("no GPU ", device, ": this process sees ", count, count == 1 ? " GPU" : " GPUs"));
    const int major = capability(cudaDevAttrComputeCapabilityMajor, device);
    const int minor = capability(cudaDevAttrComputeCapabilityMinor, device);
    if (major < min_major) {
        return unusable(text("GPU ", device, " has compute capability ", major, ".", minor,
                             ", but ", min_major, ".0 or newer is needed"));
    }
    return {DeviceState::usable, {}, major, minor};
}

}  // namespace gptrain::cuda
