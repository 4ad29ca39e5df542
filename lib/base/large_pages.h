// Memory for large tables that are read at random.
#pragma once

#include <cstddef>
#include <new>
#include <sys/mman.h>

namespace gptrain {

/// An allocator that requests huge pages, which avoid most page-table walks. Small tables get no
/// large pages.
template <class T>
struct LargePages {
    using value_type = T;

    LargePages() = default;
    template <class Other>
    LargePages(const LargePages<Other>&) {}

    T* allocate(std::size_t count) {
        const std::size_t bytes = count * sizeof(T);
        void* const data = ::operator new(bytes, alignment(bytes));
        // Only advice: everything works without huge pages, more slowly.
        if (alignment(bytes) == huge_page) static_cast<void>(madvise(data, bytes, MADV_HUGEPAGE));
        return static_cast<T*>(data);
    }
    void deallocate(T* data, std::size_t count) {
        ::operator delete(data, alignment(count * sizeof(T)));
    }
    bool operator==(const LargePages&) const = default;

private:
    static constexpr std::align_val_t huge_page{std::size_t{2} << 20};
    static std::align_val_t alignment(std::size_t bytes) {
        return bytes < static_cast<std::size_t>(huge_page) ? std::align_val_t(alignof(T))
                                                           : huge_page;
    }
};

}  // namespace gptrain
