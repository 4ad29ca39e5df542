// The communicator between the GPUs of a machine, on emulated devices: the mailboxes of the ranks
// are shared memory. Streams do their work as late as they may, at once, and now and then.
#include "cuda/cuda_backend.h"
#include "cuda/peer/communicator.h"
#include "emulator/queue.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

std::unique_ptr<Communicator> over_peers(Backend& backend) {
    static int communicators = 0;
    auto hosts = std::make_unique<MpiCommunicator>(
        session(), MpiGroup{.color = 0, .key = session().rank()}, backend);
    const std::string name =
        session().broadcast(text("/gptrain-test-", getpid(), "-", communicators++));
    return std::make_unique<cuda::PeerCommunicator>(
        std::make_shared<cuda::PeerCommunicators>(), std::move(hosts),
        *cuda::compute_stream(backend), RankGroup{}, name);
}

Way with(emulator::Haste haste, const std::string& name) {
    return {name, [haste](Backend& backend) {
                emulator::haste() = haste;
                return over_peers(backend);
            }};
}

}  // namespace

std::unique_ptr<Backend> make_backend() {
    return cuda::make_backend();
}

std::vector<Way> ways() {
    if (session().size() == 1) return {};
    return {with(emulator::Haste::none, "peers, late"),
            with(emulator::Haste::all, "peers, at once"),
            with(emulator::Haste::messages, "peers, before computation"),
            with(emulator::Haste::some, "peers, now and then")};
}

std::string why_not_run() {
    return {};
}

}  // namespace gptrain::test
