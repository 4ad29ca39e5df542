// The communicator over NCCL as it calls NCCL and the CUDA runtime. Both are stand-ins over host
// memory, so no GPU is needed.
#include "cpu/cpu_backend.h"
#include "cuda/nccl/communicator.h"
#include "fake_nccl.h"
#include "ranks.h"

namespace gptrain::test {

std::unique_ptr<Backend> make_backend() {
    return cpu::make_backend();
}

std::vector<Way> ways() {
    return {{"NCCL", [](Backend& backend) -> std::unique_ptr<Communicator> {
                 static const cuda::Stream compute;
                 auto hosts = std::make_unique<MpiCommunicator>(
                     session(), MpiGroup{.color = 0, .key = session().rank()}, backend);
                 return std::make_unique<cuda::NcclCommunicator>(
                     std::make_shared<cuda::NcclCommunicators>(fake_nccl()), std::move(hosts),
                     compute, RankGroup{});
             }}};
}

std::string why_not_run() {
    return {};
}

}  // namespace gptrain::test
