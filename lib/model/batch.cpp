#include "model/batch.h"

namespace gptrain {
namespace {

template <class T>
void upload(Backend& backend, const Tensor& to, const std::vector<T>& values) {
    backend.upload(to, std::as_bytes(std::span(values)));
}

/// The columns of a slice of a row-major [B, S] matrix.
std::vector<std::int32_t> columns(const std::vector<std::int32_t>& values, std::int64_t length,
                                  const StreamSlice& slice) {
    const std::int64_t count = slice.stripe_rows(length);
    std::vector<std::int32_t> taken;
    for (auto row = values.begin(); row != values.end(); row += length) {
        for (std::int64_t stripe = 0; stripe < slice.stripes; ++stripe) {
            const auto begin = row + slice.first_row(length, stripe);
            taken.insert(taken.end(), begin, begin + count);
        }
    }
    return taken;
}

}  // namespace

Batch reserve_batch(Arena& arena, const Shape& shape, const BatchMasks& masks,
                    const StreamSlice& stream) {
    const auto mask = [&](bool wanted) {
        return wanted ? arena.allocate(DType::i32, shape) : Tensor();
    };
    Batch batch = {.ids = arena.allocate(DType::i32, shape),
                   .targets = arena.allocate(DType::i32, shape),
                   .weights = arena.allocate(DType::f32, shape),
                   .positions = arena.allocate(DType::i32, shape),
                   .stream_positions = {},
                   .first_visible = mask(masks.documents),
                   .first_in_window = mask(masks.window),
                   .sources = masks.sources ? arena.allocate(DType::i32, {shape[0]}) : Tensor()};
    batch.stream_positions = batch.positions;
    if (stream.count > 1) {
        batch.stream_positions =
            arena.allocate(DType::i32, {shape[0], div_exact(shape[1], stream.count)});
    }
    return batch;
}

void upload_batch(Backend& backend, const Batch& batch, const Microbatch& microbatch,
                  const StreamSlice& stream) {
    upload(backend, batch.ids, microbatch.ids);
    upload(backend, batch.targets, microbatch.targets);
    upload(backend, batch.weights, microbatch.weights);
    upload(backend, batch.positions, microbatch.positions);
    if (stream.count > 1) {
        upload(backend, batch.stream_positions,
               columns(microbatch.positions, batch.seq_length(), stream));
    }
    if (!batch.first_visible.empty())
        upload(backend, batch.first_visible, microbatch.first_visible);
    if (!batch.first_in_window.empty())
        upload(backend, batch.first_in_window, microbatch.first_in_window);
    // Texts that are scored have none.
    if (!batch.sources.empty() && !microbatch.sources.empty())
        upload(backend, batch.sources, microbatch.sources);
}

}  // namespace gptrain
