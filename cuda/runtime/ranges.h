// Named ranges in a profiler's timeline (NVTX). They cost almost nothing when no profiler runs. The
// emulator has a twin of this file.
#pragma once

#include <nvtx3/nvToolsExt.h>
#include <string>
#include <string_view>

namespace gptrain::cuda {

/// Names what this thread issues until `end_profile_range`. Ranges may nest.
inline void begin_profile_range(std::string_view name) {
    nvtxRangePushA(std::string(name).c_str());
}
inline void end_profile_range() {
    nvtxRangePop();
}

}  // namespace gptrain::cuda
