// The communicator over MPI, with tensors of the CPU backend.
#include "cpu/cpu_backend.h"
#include "delayed.h"
#include "ranks.h"

namespace gptrain::test {

std::unique_ptr<Backend> make_backend() {
    return cpu::make_backend();
}

std::vector<Way> ways() {
    if (!session().running()) return {};
    const auto make = [](Backend& backend, const MpiOptions& options) -> CommunicatorFactory {
        return [&backend, options](const RankGroup&) {
            const MpiGroup everyone = {.color = 0, .key = session().rank()};
            return std::make_unique<MpiCommunicator>(session(), everyone, backend, options);
        };
    };
    const auto way = [make](const std::string& name, const MpiOptions& options) {
        return Way{name, [=](Backend& backend) { return watched(make(backend, options)); }};
    };
    const auto late = [make](Backend& backend) {
        return watched(delayed(make(backend, {}), Start::at_random));
    };
    // A limit of 24 bytes cuts inside runs and between them.
    return {way("direct", {}),
            way("in small pieces", {.message_bytes = 24}),
            way("staged", {.staged = true}),
            way("staged, in small pieces", {.staged = true, .message_bytes = 24}),
            {"delayed", late}};
}

std::string why_not_run() {
    return {};
}

}  // namespace gptrain::test
