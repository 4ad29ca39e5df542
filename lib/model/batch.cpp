#include "model/batch.h"

namespace gptrain {
namespace {

template <class T>
void upload(Backend& backend, const Tensor& to, const std::vector<T>& values) {
    backend.upload(to, std::as_bytes(std::span(values)));
}

/// The columns of a slice of a row-major [B, S] matrix.
template <class T>
std::vector<T> columns(const std::vector<T>& values, std::int64_t length,
                       const StreamSlice& slice) {
    const std::int64_t count = slice.stripe_rows(length);
    std::vector<T> taken;
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
    Batch batch;
    visit_fields(
        [&](const TokenField& field, Tensor& values) {
            if (field.is_in(masks)) values = arena.allocate(field.dtype, field.shape_in(shape));
        },
        batch);
    batch.stream_positions = batch.positions;
    batch.stream_weights = batch.weights;
    if (stream.count > 1) {
        const Shape slice = {shape[0], div_exact(shape[1], stream.count)};
        batch.stream_positions = arena.allocate(DType::i32, slice);
        batch.stream_weights = arena.allocate(DType::f32, slice);
    }
    return batch;
}

Batch shortened(const Batch& batch, const Shape& shape) {
    Batch part = batch;
    visit_fields(
        [&](const TokenField& field, Tensor& values) {
            if (values.empty()) return;
            const Shape fewer = field.shape_in(shape);
            const Tensor all = values.view({values.elements()});
            values = all.slice(0, 0, fewer.elements()).view(fewer);
        },
        part);
    part.stream_positions = part.positions;
    part.stream_weights = part.weights;
    return part;
}

void upload_batch(Backend& backend, const Batch& batch, const Microbatch& microbatch,
                  const StreamSlice& stream) {
    visit_fields(
        [&](const TokenField& field, const Tensor& to, const auto& values) {
            // Texts that are scored have no sources.
            if (to.empty() || (field.by_sequence && values.empty())) return;
            GPTRAIN_CHECK(microbatch.ids.empty() || std::ssize(values) == to.elements(),
                          "a microbatch has ", values.size(), " ", field.name, " for ",
                          to.elements(), field.by_sequence ? " sequences" : " tokens");
            upload(backend, to, values);
        },
        batch, microbatch);
    if (stream.count > 1) {
        upload(backend, batch.stream_positions,
               columns(microbatch.positions, batch.seq_length(), stream));
        upload(backend, batch.stream_weights,
               columns(microbatch.weights, batch.seq_length(), stream));
    }
}

}  // namespace gptrain
