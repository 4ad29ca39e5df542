// A program whose ranks meet a fault, for rank_faults.sh; its argument selects the fault. Its main
// function handles errors as mpi_session.h requires.
#include <csignal>
#include <string_view>

#include "base/log.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"

namespace gptrain {
namespace {

/// Rank 1 is at fault, the others wait for it.
void meet(std::string_view fault, const MpiSession& session, Backend& backend) {
    const int rank = session.rank();
    const bool guilty = rank == 1;
    MpiCommunicator all(session, {.color = 0, .key = rank}, backend);
    const Buffer memory = backend.allocate(std::int64_t{1} << 20, MemorySpace::device);
    const Tensor x(memory.data(), DType::f32, {std::int64_t{1} << 18});
    if (fault == "common") {
        session.run_on_all([&] {
            if (rank > 0) fail(ExitCode::bad_input, "corpus.idx is no index file");
        });
    } else if (fault == "alone") {
        if (guilty) fail(ExitCode::io, "the disk is full");
        all.barrier();
    } else if (fault == "in-flight") {
        if (guilty) {
            // No other rank takes part in it: waiting for it would take forever.
            const Pending sum = all.all_reduce(x, Reduce::sum);
            fail(ExitCode::numerical, "the loss is not a number");
        }
        all.barrier();
    } else if (fault == "killed") {
        if (guilty) std::raise(SIGKILL);
        all.all_reduce(x, Reduce::sum).wait();
    } else if (fault == "shapes") {
        // Short messages: OpenMPI 4.1 itself crashes in 1 of 20 tries if it truncates one that is
        // too long to be sent at once.
        const std::int64_t elements = guilty ? 900 : 600;
        all.all_reduce(x.slice(0, 0, elements), Reduce::sum).wait();
        all.barrier();
    } else if (fault == "short") {
        if (rank == 0) all.send(x.slice(0, 0, 60'000), 1).wait();
        if (guilty) all.recv(x.slice(0, 0, 90'000), 0).wait();
        all.barrier();
    } else if (fault == "escapes") {
        all.barrier();
    } else {
        fail(ExitCode::usage, "which fault?");
    }
}

int report(const Error& error) {
    error_line("rank_faults", error.what());
    return static_cast<int>(error.code());
}

int run(std::string_view fault) {
    const MpiSession session;
    if (fault == "escapes" && session.rank() == 1) fail(ExitCode::io, "nobody catches this");
    try {
        const auto backend = cpu::make_backend();
        meet(fault, session, *backend);
    } catch (const CommonError& error) {
        return session.rank() == 0 ? report(error) : static_cast<int>(error.code());
    } catch (const Error& error) {
        report(error);
        session.abort_all(error.code());
    }
    return 0;
}

}  // namespace
}  // namespace gptrain

int main(int argc, char** argv) {
    try {
        return gptrain::run(argc > 1 ? argv[1] : "");
    } catch (const gptrain::Error& error) {
        return gptrain::report(error);
    }
}
