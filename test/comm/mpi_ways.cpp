// The communicator over MPI, with tensors of the CPU backend.
#include "cpu/cpu_backend.h"
#include "ranks.h"

namespace gptrain::test {

std::unique_ptr<Backend> make_backend() {
    return cpu::make_backend();
}

std::vector<Way> ways() {
    if (!session().running()) return {};
    const auto way = [](const std::string& name, const MpiOptions& options) {
        return Way{name, [options](Backend& backend) {
                       const MpiGroup everyone = {.color = 0, .key = session().rank()};
                       return watched([&](const RankGroup&) {
                           return std::make_unique<MpiCommunicator>(session(), everyone, backend,
                                                                    options);
                       });
                   }};
    };
    // A limit of 24 bytes cuts inside runs and between them.
    return {way("direct", {}), way("in small pieces", {.message_bytes = 24}),
            way("staged", {.staged = true}),
            way("staged, in small pieces", {.staged = true, .message_bytes = 24})};
}

std::string why_not_run() {
    return {};
}

}  // namespace gptrain::test
