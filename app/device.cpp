#include "device.h"

#include <omp.h>

#include "base/error.h"
#include "cpu/cpu_backend.h"

namespace gptrain {

bool would_use_cuda(DeviceChoice choice) {
    if (choice == DeviceChoice::cuda) {
        fail(ExitCode::usage,
             "device: cuda is not built yet in this version; set it to cpu or auto");
    }
    return false;
}

Device open_device(DeviceChoice choice) {
    return {.backend = make_cpu_backend(), .cuda = would_use_cuda(choice)};
}

std::int64_t device_scratch_bytes(DeviceChoice choice, const OpLimits& limits) {
    would_use_cuda(choice);
    return cpu_scratch_bytes(limits, omp_get_max_threads());
}

}  // namespace gptrain
