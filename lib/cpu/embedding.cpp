#include "cpu/embedding.h"

#include <cstring>

#include "cpu/dropout_mask.h"
#include "cpu/parallel.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// dweight[row_of(t)] += scale dx[t] in ascending order of t, if row_of(t) is one of its rows.
/// Threads split the columns, so that each element has one order of additions.
template <class T, class RowOf>
void add_rows(const Tensor& dx, const Tensor& dweight, float scale, const RowOf& row_of) {
    const std::int64_t tokens = dx.size(0);
    const std::int64_t hidden = dx.size(1);
    const std::int64_t rows = dweight.size(0);
    const T* from = dx.as<T>();
    auto* to = dweight.as<float>();
    parallel_ranges(hidden, tokens, 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = 0; t < tokens; ++t) {
            const std::int64_t row = row_of(t);
            if (row < 0 || row >= rows) continue;
            float* sum = to + row * hidden;
            const T* x = from + t * hidden;
            for_vectors(begin, end, [&](std::int64_t h, auto lanes) {
                store(sum + h, fma(load(x + h, lanes), Vec8(scale), load(sum + h, lanes)), lanes);
            });
        }
    });
}

template <class T>
void scale(const Tensor& x, float factor) {
    T* values = x.as<T>();
    parallel_ranges(x.elements(), 1, 64, [&](std::int64_t begin, std::int64_t end) {
        for_vectors(begin, end, [&](std::int64_t i, auto lanes) {
            store(values + i, load(values + i, lanes) * Vec8(factor), lanes);
        });
    });
}

template <class T>
void add_positions(const PositionForward& args) {
    const std::int64_t hidden = args.x.size(1);
    const DropoutMask mask(args.dropout);
    T* x = args.x.as<T>();
    const T* weight = pointer_or_null<T>(args.weight);
    const auto* positions = args.positions.as<std::int32_t>();
    parallel_ranges(args.x.size(0), 4 * hidden, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
            T* row = x + t * hidden;
            const T* added = weight == nullptr ? nullptr : weight + positions[t] * hidden;
            for_dropped_vectors(mask, t, args.seq_length, 0, hidden,
                                [&](std::int64_t h, auto lanes, Vec8 factor) {
                                    Vec8 sum = load(row + h, lanes);
                                    if (added != nullptr) sum = sum + load(added + h, lanes);
                                    store(row + h, sum * factor, lanes);
                                });
        }
    });
}

template <class T>
void drop_in_place(const PositionBackward& args) {
    const std::int64_t hidden = args.dx.size(1);
    const DropoutMask mask(args.dropout);
    T* dx = args.dx.as<T>();
    parallel_ranges(args.dx.size(0), 4 * hidden, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
            T* row = dx + t * hidden;
            for_dropped_vectors(mask, t, args.seq_length, 0, hidden,
                                [&](std::int64_t h, auto lanes, Vec8 factor) {
                                    store(row + h, load(row + h, lanes) * factor, lanes);
                                });
        }
    });
}

}  // namespace

void run(const EmbeddingForward& args) {
    const std::int64_t rows = args.weight.size(0);
    const std::int64_t row_bytes = args.x.size(1) * size_of(args.x.dtype());
    const auto* ids = args.ids.as<std::int32_t>();
    parallel_ranges(args.x.size(0), row_bytes, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
            const std::int64_t row = ids[t] - args.vocab_begin;
            std::byte* to = args.x.data() + t * row_bytes;
            const auto bytes = static_cast<std::size_t>(row_bytes);
            if (row < 0 || row >= rows) {
                std::memset(to, 0, bytes);
            } else {
                std::memcpy(to, args.weight.data() + row * row_bytes, bytes);
            }
        }
    });
    if (args.scale == 1) return;
    with_compute_type(args.x.dtype(),
                      [&](auto type) { scale<decltype(type)>(args.x, args.scale); });
}

void run(const EmbeddingBackward& args) {
    const auto* ids = args.ids.as<std::int32_t>();
    with_compute_type(args.dx.dtype(), [&](auto type) {
        add_rows<decltype(type)>(args.dx, args.dweight, args.scale,
                                 [&](std::int64_t t) { return ids[t] - args.vocab_begin; });
    });
}

void run(const PositionForward& args) {
    with_compute_type(args.x.dtype(), [&](auto type) { add_positions<decltype(type)>(args); });
}

void run(const PositionBackward& args) {
    with_compute_type(args.dx.dtype(), [&](auto type) {
        using T = decltype(type);
        if (args.dropout.probability > 0) drop_in_place<T>(args);
        if (args.dweight.empty()) return;
        const auto* positions = args.positions.as<std::int32_t>();
        add_rows<T>(args.dx, args.dweight, 1,
                    [&](std::int64_t t) { return std::int64_t{positions[t]}; });
    });
}

}  // namespace gptrain::cpu
