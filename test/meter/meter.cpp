// The counting backend and its communicator.
#include <map>
#include <vector>

#include "catch.h"
#include "meter/meter_communicator.h"

namespace gptrain {
namespace {

class Listed final : public OpListener {
public:
    void on_op(const OpWork& op) override {
        names.emplace_back(op.name);
        last_of[names.back()] = op;
    }
    std::vector<std::string> names;
    std::map<std::string, OpWork> last_of;
};

}  // namespace

TEST_CASE("the meter adds up GEMMs, attention and updates, and keeps distinct linear ops") {
    MeterBackend meter(BackendMemory{});
    Listed listed;
    meter.listen(listed);
    Arena arena(meter, MemorySpace::device, "tested", 1 << 20);
    const Tensor x = arena.allocate(DType::f32, {4, 8});
    const Tensor weight = arena.allocate(DType::f32, {16, 8});
    const Tensor y = arena.allocate(DType::f32, {4, 16});
    const LinearForward forward = {.x = x, .weight = weight, .bias = {}, .y = y};
    meter.run(forward);
    meter.run(forward);
    meter.run(LinearInputGrad{.dy = y, .weight = weight, .gelu_input = {}, .dx = x});
    const Int8Matrix int8 = {arena.allocate(DType::i8, {16, 8}),
                             arena.allocate(DType::f32, {16, 1})};
    meter.run(Int8LinearForward{.x = x, .weight = int8, .bias = {}, .y = y});
    const Tensor experts = arena.allocate(DType::f32, {1, 2, 16, 8});
    const Tensor offsets = arena.allocate(DType::i32, {3});
    meter.run(GroupedForward{.x = x, .weight = experts, .offsets = offsets, .y = y});
    meter.run(GroupedInputGrad{.dy = y, .weight = experts, .offsets = offsets, .dx = x});
    meter.run(GroupedWeightGrad{.x = x, .dy = y, .offsets = offsets, .dweight = experts});
    const Tensor half = y.view({8, 8}).slice(0, 0, 4);
    LinearForward with_swiglu = forward;
    with_swiglu.swiglu = half;
    meter.run(with_swiglu);
    CHECK(listed.last_of.at("linear_forward") == work_of(forward));
    meter.run(LinearInputGrad{
        .dy = y, .weight = weight, .gelu_input = {}, .dx = x, .swiglu_input = y, .du = y});
    meter.run(Fill{.x = x, .value = 0});
    AdamWPiece piece;
    piece.main_param = piece.main_grad = piece.exp_avg = piece.exp_avg_sq =
        arena.allocate(DType::f32, {100});
    const AdamWPiece pieces[] = {piece, piece};
    meter.run(AdamW{.pieces = pieces});
    meter.run(MuonUpdate{.main_param = weight, .x = weight, .weight = {}, .step = {}});
    CHECK(meter.work().gemms == 9 * 2 * 4 * 8 * 16);
    CHECK(meter.work().attention == 0);
    CHECK(meter.work().total() == meter.work().gemms);
    CHECK(meter.work().updates == 2 * 100 + 16 * 8);
    CHECK(meter.linear_ops().size() == 7);
    CHECK(listed.names ==
          std::vector<std::string>{"linear_forward", "linear_forward", "linear_input_grad",
                                   "int8_linear_forward", "grouped_forward", "grouped_input_grad",
                                   "grouped_weight_grad", "linear_forward", "activation_forward",
                                   "linear_input_grad", "activation_backward", "fill", "adamw",
                                   "muon_update"});
    meter.clear_work();
    CHECK(meter.work().total() == 0);
    std::vector<float> values(32, 1);
    meter.download(std::as_writable_bytes(std::span(values)), x);
    CHECK(values == std::vector<float>(32, 0));
}

TEST_CASE("the meter's communicators hold the host memory that sums over MPI take") {
    MeterBackend meter(BackendMemory{});
    Arena arena(meter, MemorySpace::device, "tested", 1 << 20);
    const Tensor x = arena.allocate(DType::f32, {1000});
    const Tensor part = arena.allocate(DType::f32, {250});
    // A rank receives the other three ranks' 250 elements of what it sums: 3,000 bytes, which end
    // at a multiple of 256.
    {
        MeterCommunicator sums(1, 4);
        sums.all_reduce(x, Reduce::sum).wait();
        CHECK(sums.held_bytes() == 3072);
        sums.reduce_scatter(part, x, 0).wait();
        CHECK(sums.held_bytes() == 3072);
        // Two at a time need twice as much, and three in turn no more.
        Pending first = sums.all_reduce(x, Reduce::sum);
        Pending second = sums.reduce_scatter(part, x, 0);
        CHECK(sums.held_bytes() == 2 * 3072);
        first.wait();
        Pending third = sums.all_reduce(x, Reduce::sum);
        CHECK(sums.held_bytes() == 2 * 3072);
    }
    MeterCommunicator others(1, 4);
    others.all_gather(x, part, 0).wait();
    others.broadcast(x, 0).wait();
    others.send_recv(x, 0, x, 2).wait();
    CHECK(others.held_bytes() == 0);
    // Five ranks share 4 elements: the last one sums none.
    const Tensor few = arena.allocate(DType::f32, {4});
    MeterCommunicator last(4, 5);
    last.all_reduce(few, Reduce::sum).wait();
    CHECK(last.held_bytes() == 0);
    MeterCommunicator alone(0, 1);
    alone.all_reduce(x, Reduce::sum).wait();
    CHECK(alone.held_bytes() == 0);
}

}  // namespace gptrain
