#include "cuda/mesh/peers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "comm/mpi_communicator.h"
#include "comm/peer_axes.h"
#include "cuda/cuda_backend.h"
#include "cuda/peer/links.h"

namespace gptrain::cuda {
namespace {

using Bytes = std::array<std::byte, 256>;

/// The message of rank `from` of a node to rank `to` in the trial.
Bytes sent(int from, int to) {
    Bytes bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(17 * from + 5 * to + static_cast<int>(i));
    return bytes;
}

/// Waits until the stream is done. If that takes more than 10 seconds, lets it run on, and throws
/// an Error (usage).
void finish(const Stream& stream, PeerLinks& links) {
    constexpr std::chrono::seconds patience(10);
    Event done;
    done.record(stream);
    const auto begin = std::chrono::steady_clock::now();
    while (!done.done() && std::chrono::steady_clock::now() - begin < patience)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (done.done()) return;
    while (!done.done())
        links.release();
    fail(ExitCode::usage, "a message between two GPUs did not arrive in ", patience.count(),
         " seconds");
}

/// Each rank sends to all others. Throws Error (usage) if that fails.
void exchange_all(PeerLinks& links, int rank, int size, Backend& backend, const Stream& out,
                  const Stream& in) {
    const Buffer memory = backend.allocate(2 * std::int64_t{sizeof(Bytes)}, MemorySpace::device);
    const auto slot = [&](std::int64_t index) {
        const Tensor x(memory.data() + index * std::int64_t{sizeof(Bytes)}, DType::u8,
                       {std::int64_t{sizeof(Bytes)}});
        return run_of(x);
    };
    for (int distance = 1; distance < size; ++distance) {
        const int to = (rank + distance) % size;
        const int from = (rank + size - distance) % size;
        const Bytes own = sent(rank, to);
        copy(slot(0).data, own.data(), std::int64_t{sizeof own}, out);
        links.push(std::array{PeerLinks::Outgoing{slot(0), to}}, out);
        finish(out, links);
        const std::array sender = {from};
        copy_piece(slot(1), links.arrived(std::array{slot(1)}, sender, in).front(), in);
        links.taken(sender, in);
        finish(in, links);
        Bytes there;
        copy(there.data(), slot(1).data, std::int64_t{sizeof there}, in);
        in.synchronize();
        if (there != sent(from, rank))
            fail(ExitCode::usage, "a message between two GPUs arrived with wrong values");
    }
}

/// Why messages between these ranks, which try all pairs, fail; empty if they do not. Each rank
/// may find something else.
std::string fault_of_messages(Communicator& ranks, const std::string& name, Backend& backend) {
    const Stream out;
    const Stream in;
    try {
        PeerLinks links(ranks, name);
        // The links end together, even if one rank fails.
        try {
            exchange_all(links, ranks.rank(), ranks.size(), backend, out, in);
            return {};
        } catch (const Error& error) {
            links.release();
            return error.what();
        }
    } catch (const Error& error) {
        return error.what();
    }
}

/// The axes of `a` that are not in `b`.
PeerAxes without(PeerAxes a, const PeerAxes& b) {
    std::erase_if(a, [&](Axis axis) { return contains(b, axis); });
    return a;
}

void warn_of_lost(const PeerAxes& lost) {
    std::string names;
    for (const Axis axis : lost)
        append(names, text(names.empty() ? "" : ", ", name_of(axis)));
    warn("parallel.peer: messages of ", names,
         " were copies between GPUs when the checkpoint was written, which this placement of ranks "
         "does not allow: NCCL takes over, and adds in another order, so results differ in their "
         "last bits");
}

}  // namespace

std::string run_name(const MpiSession& session) {
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    return session.broadcast(text("/gptrain-", getpid(), "-", now));
}

std::string fault_of_peers(const MpiSession& session, Backend& backend) {
    const auto first = [&](const std::string& own) {
        const std::vector<std::string> faults = session.exchange(own);
        const auto found =
            std::ranges::find_if(faults, [](const auto& one) { return !one.empty(); });
        return found == faults.end() ? std::string() : *found;
    };
    std::string fault = first(fault_of_peer_memory());
    if (!fault.empty()) return fault;
    const std::string name = run_name(session);
    MpiCommunicator node(session, {.color = session.node(), .key = session.rank()}, backend);
    if (node.size() > 1)
        fault = fault_of_messages(node, text(name, "-trial-", session.node()), backend);
    return first(fault);
}

PeerAxes choose_peer_axes(const MpiSession& session, const MeshShape& shape, Backend& backend,
                          const std::optional<PeerAxes>& saved) {
    const std::vector<std::string> nodes = session.exchange(text(session.node()));
    PeerAxes possible = axes_inside_nodes(shape, nodes);
    if (!possible.empty()) {
        const std::string fault = fault_of_peers(session, backend);
        if (!fault.empty()) {
            possible.clear();
            if (session.rank() == 0) print("parallel.peer: auto uses NCCL: ", fault);
        }
    }
    if (!saved) return possible;
    const PeerAxes lost = without(*saved, possible);
    if (!lost.empty() && session.rank() == 0) warn_of_lost(lost);
    return without(*saved, lost);
}

}  // namespace gptrain::cuda
