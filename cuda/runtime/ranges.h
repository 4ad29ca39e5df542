// Names in the timeline of a profiler (NVTX): without one they cost next to nothing. The emulator
// has a twin of this file.
#pragma once

#include <nvtx3/nvToolsExt.h>
#include <string>
#include <string_view>

namespace gptrain::cuda {

/// What this thread issues until `end_profile_range` is shown under the name. Ranges nest.
inline void begin_profile_range(std::string_view name) {
    nvtxRangePushA(std::string(name).c_str());
}
inline void end_profile_range() {
    nvtxRangePop();
}

}  // namespace gptrain::cuda
