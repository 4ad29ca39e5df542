// The communicator over NCCL as it calls NCCL and the CUDA runtime. Both are stand-ins over host
// memory, so no GPU is needed.
#include "nccl_rig.h"

namespace gptrain::test {

namespace {

const cuda::Stream& compute() {
    static const cuda::Stream stream;
    return stream;
}

Way way(const std::string& name, Pace at) {
    return {name, [at](Backend& backend) {
                pace() = at;
                return connect_all(backend, compute());
            }};
}

}  // namespace

std::unique_ptr<Backend> make_backend() {
    return std::make_unique<StreamBackend>(compute());
}

std::vector<Way> ways() {
    return {way("NCCL", Pace::at_once), way("NCCL, late messages", Pace::messages_late),
            way("NCCL, late computation", Pace::computation_late)};
}

std::string why_not_run() {
    return {};
}

}  // namespace gptrain::test
