// The tensors that ops say they use, and the memory traffic that follows.
#include "cases.h"
#include "catch.h"
#include "support/host_backend.h"

namespace gptrain {
namespace {

/// Notes what ops list, and computes nothing.
class TensorRecorder final : public EachOp<HostBackend, TensorRecorder> {
public:
    template <class Op>
    void on(const Op& op) {
        visit_tensors(op, [&](const Tensor& tensor, Access access) {
            listed.push_back({tensor, access});
        });
    }
    std::vector<ListedTensor> listed;
};

/// A tensor without memory.
Tensor shaped(DType dtype, const Shape& shape) {
    return {reinterpret_cast<std::byte*>(Arena::alignment), dtype, shape};
}

}  // namespace

TEST_CASE("ops list the tensors that they use") {
    for (const auto& cases : {linear_cases(), fp8_cases(), int8_cases(), norm_cases(),
                              head_norm_cases(), activation_cases(), embedding_cases(),
                              attention_cases(), loss_cases(), optimizer_cases(), muon_cases()}) {
        for (const OpCase& op : cases) {
            if (op.large) continue;
            INFO(op.name);
            TensorRecorder recorder;
            ScratchMemory scratch(recorder);
            OpRun run(recorder, op, scratch);
            run.run();
            CHECK(run.listing_faults(recorder.listed) == "");
        }
    }
}

TEST_CASE("memory traffic counts bytes read and written, updates twice") {
    const Tensor x = shaped(DType::bf16, {3, 8});
    CHECK(memory_traffic(Fill{.x = x, .value = 1}) == 48);
    CHECK(memory_traffic(Cast{.to = shaped(DType::f32, {3, 8}), .from = x}) == 96 + 48);
    CHECK(memory_traffic(Add{.x = x, .y = x}) == 3 * 48);
    const Tensor dbias = shaped(DType::f32, {8});
    CHECK(memory_traffic(BiasGrad{.dy = x, .dbias = dbias}) == 48 + 2 * 32);

    AdamWPiece piece;
    piece.main_param = piece.main_grad = piece.exp_avg = piece.exp_avg_sq =
        shaped(DType::f32, {100});
    CHECK(memory_traffic(AdamW{.pieces = std::span(&piece, 1)}) == 400 + 3 * 800);
    piece.weight = shaped(DType::bf16, {100});
    CHECK(memory_traffic(AdamW{.pieces = std::span(&piece, 1)}) == 400 + 3 * 800 + 200);
}

TEST_CASE("memory traffic counts the rows of a table that are looked up") {
    const Tensor ids = shaped(DType::i32, {3});
    const Tensor x = shaped(DType::bf16, {3, 8});
    const Tensor large = shaped(DType::bf16, {1000, 8});
    const Tensor small = shaped(DType::bf16, {2, 8});
    CHECK(memory_traffic(EmbeddingForward{.ids = ids, .weight = large, .x = x}) == 12 + 2 * 48);
    CHECK(memory_traffic(EmbeddingForward{.ids = ids, .weight = small, .x = x}) == 12 + 32 + 48);
}

}  // namespace gptrain
