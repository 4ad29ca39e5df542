#include <cmath>

#include "cpu/attention.h"
#include "cpu/attention_tiles.h"
#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Rows of a tensor [B, Sq, N, D].
template <class T>
struct HeadRows {
    const Tensor& x;
    T* at(std::int64_t b, std::int64_t i, std::int64_t n) const {
        return x.as<T>() + b * x.stride(0) + i * x.stride(1) + n * x.stride(2);
    }
};

void check(const Tensor& sinks, const Tensor& o, const Tensor& lse) {
    GPTRAIN_CHECK(o.rank() == 4 && sinks.elements() == o.size(2) && lse.contiguous() &&
                      lse.elements() * o.size(3) == o.elements(),
                  sinks.elements(), " sinks for o ", o.shape().to_text(), " and lse ",
                  lse.shape().to_text());
}

/// Adds the sink to a row's lse; returns the factor of its o.
float add_sink(float sink, float& lse) {
    if (lse == -infinity) {
        lse = sink;
        return 1;
    }
    const double difference = double{sink} - double{lse};
    const double added = difference > 0 ? difference + std::log1p(std::exp(-difference))
                                        : std::log1p(std::exp(difference));
    lse = static_cast<float>(double{lse} + added);
    return static_cast<float>(std::exp(-added));
}

template <class T, class S>
void add_sinks(const SinkForward& args) {
    const std::int64_t queries = args.o.size(1);
    const std::int64_t heads = args.o.size(2);
    const std::int64_t dims = args.o.size(3);
    const HeadRows<T> o{args.o};
    const auto* sinks = args.sinks.as<S>();
    auto* lse = args.lse.as<float>();
    parallel_ranges(
        args.o.size(0) * queries, 2 * heads * dims, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t token = begin; token < end; ++token) {
                const std::int64_t b = token / queries;
                const std::int64_t i = token % queries;
                for (std::int64_t n = 0; n < heads; ++n) {
                    const Vec8 factor =
                        add_sink(to_float(sinks[n]), lse[(b * heads + n) * queries + i]);
                    T* row = o.at(b, i, n);
                    for_vectors(0, dims, [&](std::int64_t d, auto lanes) {
                        store(row + d, load(row + d, lanes) * factor, lanes);
                    });
                }
            }
        });
}

template <class T>
void sink_gradients(const SinkBackward& args) {
    const std::int64_t queries = args.o.size(1);
    const std::int64_t heads = args.o.size(2);
    const std::int64_t dims = args.o.size(3);
    const HeadRows<T> o{args.o};
    const HeadRows<T> d_o{args.d_o};
    const auto* lse = args.lse.as<float>();
    parallel_items(heads, args.o.size(0) * queries * dims, [&](std::int64_t n) {
        const double sink = to_float(args.sinks.as<T>()[n]);
        double gradient = 0;
        for (std::int64_t b = 0; b < args.o.size(0); ++b) {
            for (std::int64_t i = 0; i < queries; ++i) {
                const T* row = o.at(b, i, n);
                const T* d_row = d_o.at(b, i, n);
                Vec8 delta = 0.0f;
                for_vectors(0, dims, [&](std::int64_t d, auto lanes) {
                    delta = fma(load(d_row + d, lanes), load(row + d, lanes), delta);
                });
                gradient += std::exp(sink - lse[(b * heads + n) * queries + i]) *
                            static_cast<double>(delta.sum());
            }
        }
        args.dsinks.as<float>()[n] -= static_cast<float>(gradient);
    });
}

}  // namespace

void run(const SinkForward& args) {
    check(args.sinks, args.o, args.lse);
    with_compute_type(args.sinks.dtype(), [&](auto type) {
        using S = decltype(type);
        args.o.dtype() == DType::f32 ? add_sinks<float, S>(args) : add_sinks<S, S>(args);
    });
}

void run(const SinkBackward& args) {
    check(args.sinks, args.o, args.lse);
    with_compute_type(args.sinks.dtype(), [&](auto type) { sink_gradients<decltype(type)>(args); });
}

}  // namespace gptrain::cpu
