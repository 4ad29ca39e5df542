#include "calibrate/measure_messages.h"

#include "calibrate/samples.h"
#include "comm/mpi_communicator.h"
#include "hardware/measured_time.h"

namespace gptrain {
namespace {

constexpr std::int64_t smallest = 256;
constexpr std::int64_t largest = std::int64_t{16} << 20;

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

MeasuredMessage measure(Communicator& ranks, std::string_view operation, const Tensors& tensors) {
    const std::int64_t bytes = tensors.part.bytes();
    const int repeats = bytes < (1 << 20) ? 60 : 12;
    std::vector<double> seconds;
    for (int i = 0; i < repeats; ++i) {
        ranks.barrier();
        seconds.push_back(seconds_of([&] { run(ranks, operation, tensors); }));
    }
    const auto [each, spread] = summary(seconds);
    return {.operation = std::string(operation),
            .bytes = static_cast<double>(bytes),
            .seconds = each / messages_of(operation, ranks.size()),
            .spread = spread};
}

}  // namespace

std::vector<MeasuredMessage> measure_messages(const MpiSession& session, Backend& backend) {
    if (session.size() == 1) return {};
    MpiCommunicator ranks(session, {0, session.rank()}, backend, {.name = "calibrate"});
    constexpr std::int64_t most = largest / size_of(DType::f32);
    const Buffer memory =
        backend.allocate(Tensors::bytes(session.size(), most), MemorySpace::device);
    backend.run(
        Fill{.x = Tensor(memory.data(), DType::f32, Shape{most * (1 + 2 * session.size())})});
    std::vector<MeasuredMessage> measured;
    for (const std::string_view operation :
         {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send_recv", "recv"}) {
        for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 4) {
            const Tensors tensors(memory, session.size(), bytes / size_of(DType::f32));
            measured.push_back(measure(ranks, operation, tensors));
        }
    }
    return measured;
}

}  // namespace gptrain
