#include "interop/stored_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/float_values.h"

namespace gptrain {
namespace {

constexpr std::int64_t piece_elements = std::int64_t{1} << 20;

template <class T>
void round_to(std::span<float> values) {
    for (float& value : values)
        value = to_float(from_float<T>(value));
}

void check_range(std::span<const float> values, const std::string& name) {
    constexpr float largest_f16 = 65504;
    for (const float value : values) {
        if (std::abs(value) <= largest_f16) continue;
        fail(ExitCode::usage, "tensor ", name, " has the value ", value,
             ", which fp16 cannot hold; use --dtype bf16 or fp32");
    }
}

void as_ours(const StoredTensor& stored, std::span<float> values) {
    if (stored.factor == 1 && stored.addend == 0) return;
    for (float& value : values)
        value = value * stored.factor + stored.addend;
}

void read_values(const StoredTensor& from, std::int64_t first, std::int64_t step,
                 std::span<float> to) {
    if (from.nf4) return from.nf4->matrix.read(first, step, to);
    to_floats(from.bytes, from.dtype, first, step, to);
}

/// To what is read of values that were written.
void round_as_stored(std::span<float> values, const StoredTensor& stored) {
    for (float& value : values)
        value = (value - stored.addend) / stored.factor;
    round_floats(values, stored.dtype);
    as_ours(stored, values);
}

}  // namespace

void round_floats(std::span<float> values, DType dtype) {
    if (dtype == DType::f16) round_to<F16>(values);
    if (dtype == DType::bf16) round_to<Bf16>(values);
}

void write_floats(File& file, const std::string& name, std::span<const float> values, DType dtype) {
    std::vector<float> rounded;
    while (!values.empty()) {
        const auto piece =
            values.first(std::min(values.size(), static_cast<std::size_t>(piece_elements)));
        if (dtype == DType::f16) check_range(piece, name);
        rounded.assign(piece.begin(), piece.end());
        file.write(from_floats(rounded, dtype));
        values = values.subspan(piece.size());
    }
}

void place_parts(const ForeignTensor& tensor, StoredTensor stored,
                 const std::map<std::string, Shape>& shapes, StoredTensors& to) {
    stored.addend = static_cast<float>(tensor.addend);
    stored.factor = static_cast<float>(tensor.factor);
    if (tensor.transposed) stored.transposed_rows = tensor.shape[tensor.shape.rank() - 1];
    for (const TensorPart& part : tensor.parts) {
        const Shape& shape = shapes.at(part.name);
        std::vector<StoredTensor>& places = to[part.name];
        places.resize(static_cast<std::size_t>(part.expert ? shape[0] : 1));
        stored.rows = part.rows;
        stored.columns = columns_of(part, shape);
        places[static_cast<std::size_t>(part.expert.value_or(0))] = stored;
    }
}

void read_stored(std::span<const StoredTensor> places, const Shard& part, std::span<float> to) {
    const std::int64_t columns = places.front().columns;
    const std::int64_t width = columns > 1 ? part.box.extent[part.global.rank() - 1] : 1;
    const std::int64_t rows = part.global.elements() / columns / std::ssize(places);
    for (std::int64_t flat = part.flat_begin; flat < part.flat_end;) {
        // The elements up to the end of the box's row.
        const std::int64_t count = std::min(width - flat % width, part.flat_end - flat);
        const std::int64_t index = part.global_index(flat);
        const StoredTensor& stored = places[static_cast<std::size_t>(index / columns / rows)];
        const std::int64_t row = stored.rows.at(index / columns % rows);
        const std::int64_t column = index % columns;
        const auto out = to.subspan(static_cast<std::size_t>(flat - part.flat_begin),
                                    static_cast<std::size_t>(count));
        if (const std::int64_t step = stored.transposed_rows; step > 0) {
            const std::int64_t matrix = row / step * step * columns;
            read_values(stored, matrix + column * step + row % step, step, out);
        } else {
            read_values(stored, row * columns + column, 1, out);
        }
        as_ours(stored, out);
        flat += count;
    }
}

std::optional<Nf4View> stored_nf4(std::span<const StoredTensor> places, const Shard& part) {
    const bool of_experts = part.global.rank() == 3;
    const std::int64_t expert = of_experts ? part.box.offset[0] : 0;
    const std::int64_t experts = of_experts ? part.global[0] : 1;
    if (std::ssize(places) != experts) return std::nullopt;
    const StoredTensor& stored = places[static_cast<std::size_t>(expert)];
    const bool same = stored.nf4 && stored.transposed_rows == 0 && stored.rows.contiguous() &&
                      stored.rows.first == 0 && stored.addend == 0 && stored.factor == 1;
    if (!same || stored.nf4->matrix.elements() != part.global.elements() / experts)
        return std::nullopt;
    return stored.nf4->matrix;
}

void check_stored(const StoredTensors& stored, std::span<const Shard> tensors,
                  const WeightReader& weights) {
    std::vector<float> ours;
    std::vector<float> theirs;
    for (Shard part : tensors) {
        const std::vector<StoredTensor>& places = stored.find(part.name)->second;
        const std::int64_t end = part.flat_end;
        for (; part.flat_begin < end; part.flat_begin = part.flat_end) {
            part.flat_end = std::min(part.flat_begin + piece_elements, end);
            ours.resize(static_cast<std::size_t>(part.elements()));
            theirs.resize(ours.size());
            weights(part, ours);
            round_as_stored(ours, places.front());
            read_stored(places, part, theirs);
            GPTRAIN_CHECK(std::memcmp(ours.data(), theirs.data(), ours.size() * sizeof(float)) == 0,
                          part.name, " was not read back as it was written");
        }
    }
}

}  // namespace gptrain
