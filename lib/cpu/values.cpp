#include "cpu/values.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

/// Larger fills bypass the cache; they would evict everything else.
constexpr std::int64_t streaming_bytes = std::int64_t{16} << 20;

template <class T>
void fill_typed(const Tensor& x, T value) {
    T* data = reinterpret_cast<T*>(x.data());
    parallel_ranges(x.elements(), 1, 4096, [&](std::int64_t begin, std::int64_t end) {
        std::fill(data + begin, data + end, value);
    });
}

constexpr std::int64_t store_bytes = 32;

bool is_aligned(const std::byte* data) {
    return reinterpret_cast<std::uintptr_t>(data) % store_bytes == 0;
}

/// Zeroes aligned memory with nontemporal stores.
void zero_streaming(std::byte* data, std::int64_t bytes) {
    parallel_ranges(bytes, 1, 4096, [&](std::int64_t begin, std::int64_t end) {
        std::int64_t i = begin;
        for (; i + store_bytes <= end; i += store_bytes) {
            _mm256_stream_si256(reinterpret_cast<__m256i*>(data + i), _mm256_setzero_si256());
        }
        std::memset(data + i, 0, static_cast<std::size_t>(end - i));
        _mm_sfence();
    });
}

}  // namespace

void run(const Fill& args) {
    GPTRAIN_CHECK(args.x.contiguous(), "fill of ", args.x.shape().to_text());
    if (std::bit_cast<std::uint32_t>(args.value) == 0 && args.x.bytes() >= streaming_bytes &&
        is_aligned(args.x.data())) {
        zero_streaming(args.x.data(), args.x.bytes());
        return;
    }
    switch (args.x.dtype()) {
        case DType::f64: fill_typed(args.x, static_cast<double>(args.value)); break;
        case DType::i32: fill_typed(args.x, static_cast<std::int32_t>(args.value)); break;
        case DType::i64: fill_typed(args.x, static_cast<std::int64_t>(args.value)); break;
        case DType::u8: fill_typed(args.x, static_cast<std::uint8_t>(args.value)); break;
        default:
            with_compute_type(args.x.dtype(), [&](auto type) {
                fill_typed(args.x, from_float<decltype(type)>(args.value));
            });
    }
}

void run(const Cast& args) {
    GPTRAIN_CHECK(args.to.elements() == args.from.elements() && args.to.contiguous() &&
                      args.from.contiguous(),
                  "cast of ", args.from.shape().to_text(), " to ", args.to.shape().to_text());
    with_compute_type(args.from.dtype(), [&](auto from_type) {
        with_compute_type(args.to.dtype(), [&](auto to_type) {
            const auto* source = args.from.as<decltype(from_type)>();
            auto* target = args.to.as<decltype(to_type)>();
            parallel_ranges(args.to.elements(), 1, 64, [&](std::int64_t begin, std::int64_t end) {
                for_vectors(begin, end, [&](std::int64_t i, auto lanes) {
                    store(target + i, load(source + i, lanes), lanes);
                });
            });
        });
    });
}

void run(const Add& args) {
    GPTRAIN_CHECK(args.x.shape() == args.y.shape() && args.x.contiguous() && args.y.contiguous(),
                  "sum of ", args.x.shape().to_text(), " and ", args.y.shape().to_text());
    with_compute_type(args.x.dtype(), [&](auto type) {
        auto* x = args.x.as<decltype(type)>();
        const auto* y = args.y.as<decltype(type)>();
        parallel_ranges(args.x.elements(), 1, 64, [&](std::int64_t begin, std::int64_t end) {
            for_vectors(begin, end, [&](std::int64_t i, auto lanes) {
                store(x + i, load(x + i, lanes) + load(y + i, lanes), lanes);
            });
        });
    });
}

void run(const SumRows& args) {
    GPTRAIN_CHECK(
        args.rows.rank() == 2 && args.rows.contiguous() && args.to.elements() == args.rows.size(1),
        "sum of the rows of ", args.rows.shape().to_text(), " to ", args.to.shape().to_text());
    const std::int64_t count = args.rows.size(0);
    const std::int64_t width = args.rows.size(1);
    with_compute_type(args.rows.dtype(), [&](auto type) {
        using T = decltype(type);
        const T* from = args.rows.as<T>();
        const auto sum_into = [&](auto* sums) {
            parallel_ranges(width, count, 64, [&](std::int64_t begin, std::int64_t end) {
                for_vectors(begin, end, [&](std::int64_t i, auto lanes) {
                    Vec8 sum = load(from + i, lanes);
                    for (std::int64_t row = 1; row < count; ++row)
                        sum = sum + load(from + row * width + i, lanes);
                    store(sums + i, sum, lanes);
                });
            });
        };
        if (args.to.dtype() == DType::f32) return sum_into(args.to.as<float>());
        sum_into(args.to.as<T>());
    });
}

}  // namespace gptrain::cpu
