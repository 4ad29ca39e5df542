#include "infer/frozen_weights.h"

#include <algorithm>
#include <cmath>

#include "backend/value_ops.h"
#include "model/nf4_part.h"

namespace gptrain {
namespace {

/// As ToInt8 and FromInt8 convert a block.
void through_int8(std::span<float> block) {
    float amax = 0;
    for (const float x : block)
        amax = std::max(amax, std::isfinite(x) ? std::abs(x) : INFINITY);
    const bool stored = amax >= int8_smallest_amax;
    for (float& x : block)
        x = stored ? std::nearbyint(x * (127 / amax)) * (amax / 127) : 0;
}

void through_int8(std::span<float> matrix, std::int64_t columns) {
    for (std::int64_t row = 0; row < std::ssize(matrix); row += columns) {
        for (std::int64_t begin = 0; begin < columns; begin += Int8Matrix::block) {
            const std::int64_t count = std::min(Int8Matrix::block, columns - begin);
            through_int8(matrix.subspan(static_cast<std::size_t>(row + begin),
                                        static_cast<std::size_t>(count)));
        }
    }
}

Shard matrix_of(const Shard& of, std::int64_t expert) {
    Shard matrix = Shard::whole(of.name, of.global);
    if (of.global.rank() == 3) {
        matrix.box.offset[0] = expert;
        matrix.box.extent[0] = 1;
    }
    matrix.flat_end = matrix.box.extent.elements();
    return matrix;
}

}  // namespace

FrozenWeightReader::FrozenWeightReader(const ModelSource& source, const ModelShape& model,
                                       QuantisedFormat format)
    : source_(source), format_(format), weights_(source) {
    if (format == QuantisedFormat::none) return;
    for (const TensorGroup& group : all_tensors(model)) {
        if (!group.linear) continue;
        for (const ModelTensor& tensor : group.tensors)
            quantised_.insert(tensor.name);
    }
}

bool FrozenWeightReader::stored_so(const Shard& matrix) const {
    const ModelSource& model = source_.adapted() == nullptr ? source_ : *source_.adapted();
    if (model.hf() == nullptr || !is_nf4(format_)) return false;
    const std::optional<Nf4View> stored = model.hf()->nf4_matrix(matrix);
    return stored && (stored->nested() || format_ == QuantisedFormat::nf4);
}

void FrozenWeightReader::take(const Shard& of, std::int64_t expert) {
    if (of.name == name_ && expert == expert_) return;
    const Shard matrix = matrix_of(of, expert);
    values_.resize(static_cast<std::size_t>(matrix.elements()));
    weights_.read(matrix, values_);
    name_ = of.name;
    expert_ = expert;
    if (stored_so(matrix)) return;
    if (format_ == QuantisedFormat::int8)
        return through_int8(values_, MatrixShape(of.global).columns);
    to_nf4(values_, format_ == QuantisedFormat::nf4_double).view().read(0, 1, values_);
}

void FrozenWeightReader::read(const Shard& part, std::span<float> to) {
    if (!quantised_.contains(part.name)) return weights_.read(part, to);
    const std::int64_t size = MatrixShape(part.global).elements();
    const std::int64_t width = MatrixShape(part.box.extent).columns;
    for (std::int64_t flat = part.flat_begin; flat < part.flat_end;) {
        // The elements up to the end of the box's row.
        const std::int64_t count = std::min(width - flat % width, part.flat_end - flat);
        const std::int64_t index = part.global_index(flat);
        take(part, index / size);
        std::copy_n(values_.begin() + index % size, count, to.begin() + (flat - part.flat_begin));
        flat += count;
    }
}

}  // namespace gptrain
