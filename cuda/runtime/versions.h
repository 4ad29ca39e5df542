// The CUDA libraries that this program was built for.
#pragma once

#include <string>

namespace gptrain::cuda {

/// "CUDA 13.0, built for cuBLASLt 13.0.2 and NCCL 2.27.3": the runtime in the program, and the
/// libraries whose headers it was compiled with; it may load newer ones. Empty without a CUDA
/// backend.
std::string library_versions();

}  // namespace gptrain::cuda
