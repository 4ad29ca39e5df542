#include "cpu/memory.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "base/process.h"
#include "base/text.h"
#include "cpu/parallel.h"

namespace gptrain::cpu {
namespace {

constexpr std::int64_t huge_page = std::int64_t{2} << 20;

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

}  // namespace gptrain::cpu
