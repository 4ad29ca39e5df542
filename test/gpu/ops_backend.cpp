#include "backends.h"
#include "cuda/cuda_backend.h"
#include "cuda/runtime/probe.h"

namespace gptrain {

std::vector<std::unique_ptr<Backend>> built_backends() {
    std::vector<std::unique_ptr<Backend>> backends;
    backends.push_back(cuda::make_backend(0, cuda::options_from_environment()));
    return backends;
}

/// cuBLASLt multiplies in blocks on Hopper alone.
bool is_tested(const OpCase& op) {
    const bool in_blocks =
        op.name.starts_with("linear") && op.name.find("in blocks") != std::string::npos;
    const cuda::DeviceProbe device = cuda::probe_device(0);
    return !in_blocks || (device.major == 9 && device.minor == 0);
}

int repetitions(const OpCase& /*op*/) {
    return 2;
}

void begin_repetition(int /*repetition*/) {}

}  // namespace gptrain
