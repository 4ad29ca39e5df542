// A microbatch, and the one list of what it has for each token and sequence.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "tensor/shape.h"

namespace gptrain {

/// The inputs of B sequences of length S: each field is [B, S], row-major, and ranks of cp cut all
/// of them alike; one by sequence is [B] and whole on each rank. `Values<T>` holds elements of type
/// T, on the host or in backend memory (model/batch.h).
///
/// A new field is a line here and one in visit_fields; append_sequence (batch_loader.cpp) computes
/// its values.
template <template <class> class Values>
struct TokenFields {
    Values<std::int32_t> ids;  ///< those of virtual tokens are below 0
    /// The next token's id; with masking, the id that the text has there.
    Values<std::int32_t> targets;
    /// Loss weight of each token: that of its target (SampleSource::weights), or 0 if eod_mask_loss
    /// is set and the input is an end of document. With masking, only tokens that would have a
    /// weight above 0 may be chosen, and only the chosen ones have it.
    Values<float> weights;
    /// Index in the sequence; with reset_at_eod, index since the last end of document.
    Values<std::int32_t> positions;
    /// Empty unless reset_at_eod: index in the sequence of the first key that a token attends to,
    /// which is the start of its document. An end-of-document token belongs to the document it
    /// ends.
    Values<std::int32_t> first_visible;
    /// Empty without a sliding window: the same for layers with a window.
    Values<std::int32_t> first_in_window;
    /// By sequence, where losses are split by source: SampleSource::source_of.
    Values<std::int32_t> sources;
};

/// The fields that not every batch has.
struct BatchMasks {
    bool documents = false;  ///< it has first_visible
    bool window = false;     ///< it has first_in_window
    bool sources = false;
};

struct TokenField {
    std::string_view name;
    DType dtype = DType::i32;
    bool BatchMasks::*mask = nullptr;  ///< only batches with this mask have the field; null: all
    bool by_sequence = false;

    /// The field's shape in a batch of `shape` [B, S].
    Shape shape_in(const Shape& shape) const { return by_sequence ? Shape{shape[0]} : shape; }
    bool is_in(const BatchMasks& masks) const { return mask == nullptr || masks.*mask; }
};

/// Calls visit(TokenField, its values in each of `of`) for each field.
template <class... Of>
void visit_fields(const auto& visit, Of&... of) {
    visit(TokenField{"ids", DType::i32}, of.ids...);
    visit(TokenField{"targets", DType::i32}, of.targets...);
    visit(TokenField{"weights", DType::f32}, of.weights...);
    visit(TokenField{"positions", DType::i32}, of.positions...);
    visit(TokenField{"first_visible", DType::i32, &BatchMasks::documents}, of.first_visible...);
    visit(TokenField{"first_in_window", DType::i32, &BatchMasks::window}, of.first_in_window...);
    visit(TokenField{"sources", DType::i32, &BatchMasks::sources, true}, of.sources...);
}

template <class T>
using HostValues = std::vector<T>;

/// One microbatch in host memory.
struct Microbatch : TokenFields<HostValues> {
    std::int64_t first_sequence = 0;  ///< index of its first sequence in the global batch
};

/// The batch of one step on one data rank.
struct StepBatch {
    std::int64_t step = 0;
    std::int64_t consumed_samples = 0;  ///< by all data ranks, before this step
    std::int64_t global_batch_size = 0;
    std::vector<Microbatch> microbatches;
    /// Sum of the weights: a loader gives those of `microbatches`, a step takes those of the global
    /// batch.
    double weight_sum = 0;
};

}  // namespace gptrain
