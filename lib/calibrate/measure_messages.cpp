#include "calibrate/measure_messages.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "calibrate/samples.h"
#include "hardware/measured_time.h"

namespace gptrain {
namespace {

constexpr std::int64_t smallest = 256;
constexpr std::int64_t largest = std::int64_t{16} << 20;
/// Of the GEMM that messages slow down: several waves of tiles on a large GPU.
constexpr std::int64_t gemm_width = 8192;

/// The tensors of an operation in which each message has `elements` fp32 elements.
struct Tensors {
    Tensor part;   ///< [1, elements]
    Tensor whole;  ///< [p, elements], like `other`
    Tensor other;

    Tensors(const Buffer& memory, std::int64_t ranks, std::int64_t elements)
        : part(memory.data(), DType::f32, Shape{1, elements}),
          whole(memory.data() + size_of(DType::f32) * elements, DType::f32, Shape{ranks, elements}),
          other(memory.data() + size_of(DType::f32) * elements * (1 + ranks), DType::f32,
                Shape{ranks, elements}) {}
    static std::int64_t bytes(std::int64_t ranks, std::int64_t elements) {
        return size_of(DType::f32) * elements * (1 + 2 * ranks);
    }
};

void run(Communicator& ranks, std::string_view operation, const Tensors& tensors) {
    const int next = (ranks.rank() + 1) % ranks.size();
    const int previous = (ranks.rank() + ranks.size() - 1) % ranks.size();
    if (operation == "all_reduce") ranks.all_reduce(tensors.whole, Reduce::sum).wait();
    if (operation == "reduce_scatter") ranks.reduce_scatter(tensors.part, tensors.whole, 0).wait();
    if (operation == "all_gather") ranks.all_gather(tensors.whole, tensors.part, 0).wait();
    if (operation == "all_to_all") ranks.all_to_all(tensors.other, tensors.whole).wait();
    if (operation == "send_recv")
        ranks.send_recv(tensors.part, next, tensors.whole.slice(0, 0, 1), previous).wait();
    if (operation == "recv" && ranks.rank() == 0) ranks.send(tensors.part, 1).wait();
    if (operation == "recv" && ranks.rank() == 1) ranks.recv(tensors.part, 0).wait();
}

/// Times messages of one communicator.
class MessageTimer {
public:
    MessageTimer(Communicator& ranks, Backend& backend)
        : ranks_(ranks),
          backend_(backend),
          stopwatch_(backend.stopwatch()),
          memory_(backend.allocate(Tensors::bytes(ranks.size(), most), MemorySpace::device)) {
        const Shape all = {most * (1 + 2 * ranks.size())};
        backend.run(Fill{.x = Tensor(memory_.data(), DType::f32, all)});
    }

    /// Measures messages of `bytes` bytes.
    MeasuredMessage measure(std::string_view operation, std::int64_t bytes) {
        const Tensors tensors(memory_, ranks_.size(), bytes / size_of(DType::f32));
        // Operations that follow each other hide how long the host takes to issue one.
        const int in_a_row = backend_.is_host() ? 1 : 8;
        const int repeats = bytes < (1 << 20) ? 60 : 12;
        std::vector<double> seconds;
        for (int i = 0; i < repeats; ++i) {
            ranks_.barrier();
            stopwatch_->lap();
            for (int j = 0; j < in_a_row; ++j)
                run(ranks_, operation, tensors);
            stopwatch_->lap();
            seconds.push_back(stopwatch_->take_laps().front() / in_a_row);
        }
        const auto [each, spread] = summary(seconds);
        return {.operation = std::string(operation),
                .bytes = static_cast<double>(bytes),
                .seconds = each / messages_of(operation, ranks_.size()),
                .spread = spread};
    }

private:
    static constexpr std::int64_t most = largest / size_of(DType::f32);

    Communicator& ranks_;
    Backend& backend_;
    std::unique_ptr<Stopwatch> stopwatch_;
    Buffer memory_;
};

LinkProfile measure_link(Communicator& ranks, Backend& backend) {
    LinkProfile link;
    if (ranks.size() == 1) return link;
    MessageTimer timer(ranks, backend);
    for (const std::string_view operation :
         {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send_recv", "recv"}) {
        for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 4)
            link.measured.push_back(timer.measure(operation, bytes));
    }
    link.latency = link.measured.front().seconds;
    for (const MeasuredMessage& message : link.measured) {
        link.bandwidth = std::max(link.bandwidth, message.bytes / message.seconds);
        link.latency = std::min(link.latency, message.seconds);
    }
    return link;
}

/// Fills in the network. `peers`: the ranks with the same place in each node.
void measure_network(Communicator& peers, bool first_of_node, std::int64_t per_node,
                     const MpiSession& session, Backend& backend, MessageTimes& times) {
    MessageTimer timer(peers, backend);
    const auto seconds_of = [&](std::int64_t bytes, bool takes_part) {
        session.max(0);  // all begin together
        return takes_part ? timer.measure("send_recv", bytes).seconds : 0;
    };
    const double latency = seconds_of(smallest, first_of_node);
    const double alone = seconds_of(largest, first_of_node);
    const double together = seconds_of(largest, true);
    times.network =
        LinkProfile{.bandwidth = static_cast<double>(largest) / alone, .latency = latency};
    times.cards = std::max<std::int64_t>(
        1, std::llround(static_cast<double>(per_node) * std::min(1.0, alone / together)));
}

/// The ranks of each node.
std::int64_t ranks_per_node(const MpiSession& session) {
    const std::int64_t most = session.max(session.local_size());
    const bool in_turn = session.local_size() == most && session.node() % most == 0 &&
                         session.rank() == session.node() + session.local_rank();
    if (session.max(in_turn ? 0 : 1) == 0) return most;
    throw CommonError(ExitCode::usage,
                      "--calibrate: start as many ranks on each node, those of a node one after "
                      "the other (srun --distribution=block, mpirun --map-by ppr:N:node)");
}

}  // namespace

MessageTimes measure_messages(const MpiSession& session, const MeasuredDevices& devices,
                              std::int64_t per_node) {
    Backend& backend = devices.backend(devices.threads);
    const MeshShape shape = {.data = session.size() / per_node, .tensor = per_node};
    const Mesh mesh = devices.connect(backend, shape, connections_of({Axis::tp, Axis::dp_cp}));
    return or_abort(mesh, [&] {
        MessageTimes times = {.link = measure_link(mesh.tp(), backend)};
        // On a host, ranks compute or move data, one after the other.
        if (per_node > 1 && !backend.is_host())
            times.costs = measure_message_costs(mesh.tp(), backend, gemm_width);
        if (shape.data > 1)
            measure_network(mesh.dp_cp(), mesh.place().tp == 0, per_node, session, backend, times);
        return times;
    });
}

MessageTimes measure_messages(const MpiSession& session, const MeasuredDevices& devices) {
    return measure_messages(session, devices, ranks_per_node(session));
}

}  // namespace gptrain
