#include "cpu/memory.h"

#include <bit>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "base/process.h"
#include "base/text.h"
#include "cpu/parallel.h"
#include "cpu/vector8.h"
#include "tensor/dtype_switch.h"

namespace gptrain::cpu {
namespace {

constexpr std::int64_t huge_page = std::int64_t{2} << 20;

/// Larger fills bypass the cache; they would evict everything else.
constexpr std::int64_t streaming_bytes = std::int64_t{16} << 20;

std::int64_t machine_memory() {
    return checked_mul(sysconf(_SC_PHYS_PAGES), sysconf(_SC_PAGESIZE));
}

/// Byte offset of row `row`, counted over all dims except the last.
std::int64_t row_offset(const Tensor& tensor, std::int64_t row) {
    std::int64_t elements = 0;
    for (int dim = tensor.rank() - 2; dim >= 0; --dim) {
        elements += row % tensor.size(dim) * tensor.stride(dim);
        row /= tensor.size(dim);
    }
    return elements * size_of(tensor.dtype());
}

void copy_row(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step,
              std::int64_t count, std::int64_t element) {
    if (to_step == 1 && from_step == 1) {
        std::memcpy(to, from, static_cast<std::size_t>(count * element));
        return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * to_step * element, from + i * from_step * element,
                    static_cast<std::size_t>(element));
    }
}

template <class T>
void fill_typed(const Tensor& x, T value) {
    T* data = reinterpret_cast<T*>(x.data());
    parallel_ranges(x.elements(), 1, 4096, [&](std::int64_t begin, std::int64_t end) {
        std::fill(data + begin, data + end, value);
    });
}

/// Zeroes memory with nontemporal stores.
void zero_streaming(std::byte* data, std::int64_t bytes) {
    parallel_ranges(bytes, 1, 4096, [&](std::int64_t begin, std::int64_t end) {
        std::int64_t i = begin;
        for (; i + 32 <= end; i += 32) {
            _mm256_stream_si256(reinterpret_cast<__m256i*>(data + i), _mm256_setzero_si256());
        }
        std::memset(data + i, 0, static_cast<std::size_t>(end - i));
        _mm_sfence();
    });
}

}  // namespace

std::byte* allocate_pages(std::int64_t bytes) {
    if (bytes == 0) return nullptr;
    void* pages = MAP_FAILED;
    if (bytes > 0 && bytes <= machine_memory()) {
        pages = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (pages == MAP_FAILED) {
        fail(ExitCode::usage, "not enough memory: cannot allocate ", human_bytes(bytes),
             " at once (the machine has ", human_bytes(machine_memory()), ")", memory_limit(),
             "; use a smaller model, micro_batch_size or seq_length");
    }
    // Only advice: everything works without huge pages, more slowly.
    static_cast<void>(madvise(pages, static_cast<std::size_t>(bytes), MADV_HUGEPAGE));
    auto* data = static_cast<std::byte*>(pages);
    parallel_ranges(bytes, 1, huge_page, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; i += 4096)
            data[i] = std::byte{0};
    });
    return data;
}

void release_pages(std::byte* data, std::int64_t bytes) noexcept {
    munmap(data, static_cast<std::size_t>(bytes));
}

void copy(const Tensor& to, const Tensor& from) {
    GPTRAIN_CHECK(to.shape() == from.shape() && to.dtype() == from.dtype(), "copy of ",
                  from.shape().to_text(), " to ", to.shape().to_text());
    if (to.elements() == 0) return;
    if (to.contiguous() && from.contiguous()) {
        parallel_ranges(to.bytes(), 1, 4096, [&](std::int64_t begin, std::int64_t end) {
            std::memcpy(to.data() + begin, from.data() + begin,
                        static_cast<std::size_t>(end - begin));
        });
        return;
    }
    const std::int64_t count = to.size(-1);
    parallel_ranges(to.elements() / count, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            copy_row(to.data() + row_offset(to, row), to.stride(-1),
                     from.data() + row_offset(from, row), from.stride(-1), count,
                     size_of(to.dtype()));
        }
    });
}

void fill(const Tensor& x, float value) {
    GPTRAIN_CHECK(x.contiguous(), "fill of ", x.shape().to_text());
    if (std::bit_cast<std::uint32_t>(value) == 0 && x.bytes() >= streaming_bytes) {
        zero_streaming(x.data(), x.bytes());
        return;
    }
    switch (x.dtype()) {
        case DType::f64: fill_typed(x, static_cast<double>(value)); break;
        case DType::i32: fill_typed(x, static_cast<std::int32_t>(value)); break;
        case DType::i64: fill_typed(x, static_cast<std::int64_t>(value)); break;
        case DType::u8: fill_typed(x, static_cast<std::uint8_t>(value)); break;
        default:
            with_compute_type(x.dtype(),
                              [&](auto type) { fill_typed(x, from_float<decltype(type)>(value)); });
    }
}

void cast(const Tensor& to, const Tensor& from) {
    GPTRAIN_CHECK(to.elements() == from.elements() && to.contiguous() && from.contiguous(),
                  "cast of ", from.shape().to_text(), " to ", to.shape().to_text());
    with_compute_type(from.dtype(), [&](auto from_type) {
        with_compute_type(to.dtype(), [&](auto to_type) {
            const auto* source = from.as<decltype(from_type)>();
            auto* target = to.as<decltype(to_type)>();
            parallel_ranges(to.elements(), 1, 64, [&](std::int64_t begin, std::int64_t end) {
                for_vectors(begin, end, [&](std::int64_t i, auto lanes) {
                    store(target + i, load(source + i, lanes), lanes);
                });
            });
        });
    });
}

void sum_rows(const Tensor& to, const Tensor& rows) {
    GPTRAIN_CHECK(rows.rank() == 2 && rows.contiguous() && to.elements() == rows.size(1),
                  "sum of the rows of ", rows.shape().to_text(), " to ", to.shape().to_text());
    const std::int64_t count = rows.size(0);
    const std::int64_t width = rows.size(1);
    with_compute_type(rows.dtype(), [&](auto type) {
        const auto* from = rows.as<decltype(type)>();
        auto* sums = to.as<float>();
        parallel_ranges(width, count, 64, [&](std::int64_t begin, std::int64_t end) {
            for_vectors(begin, end, [&](std::int64_t i, auto lanes) {
                Vec8 sum = load(from + i, lanes);
                for (std::int64_t row = 1; row < count; ++row)
                    sum = sum + load(from + row * width + i, lanes);
                store(sums + i, sum, lanes);
            });
        });
    });
}

}  // namespace gptrain::cpu
