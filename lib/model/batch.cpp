#include "model/batch.h"

namespace gptrain {
namespace {

template <class T>
void upload(Backend& backend, const Tensor& to, const std::vector<T>& values) {
    backend.upload(to, std::as_bytes(std::span(values)));
}

}  // namespace

Batch reserve_batch(Arena& arena, std::int64_t sequences, std::int64_t seq_length,
                    bool first_visible) {
    const Shape shape = {sequences, seq_length};
    return {.ids = arena.allocate(DType::i32, shape),
            .targets = arena.allocate(DType::i32, shape),
            .weights = arena.allocate(DType::f32, shape),
            .positions = arena.allocate(DType::i32, shape),
            .first_visible = first_visible ? arena.allocate(DType::i32, shape) : Tensor()};
}

void upload_batch(Backend& backend, const Batch& batch, const Microbatch& microbatch) {
    upload(backend, batch.ids, microbatch.ids);
    upload(backend, batch.targets, microbatch.targets);
    upload(backend, batch.weights, microbatch.weights);
    upload(backend, batch.positions, microbatch.positions);
    if (!batch.first_visible.empty()) {
        upload(backend, batch.first_visible, microbatch.first_visible);
    }
}

}  // namespace gptrain
