// The hooks that -fsanitize=thread calls before each plain access of a kernel, in place of the
// thread sanitizer's own library. Functions and vtables are not followed.
#include <cstddef>
#include <utility>

#include "emulator/counts.h"
#include "emulator/grid.h"
#include "emulator/memory.h"
#include "emulator/races.h"

namespace {

using namespace gptrain::emulator;

void count(const void* p, std::size_t bytes, const void* place) {
    Thread* const thread = std::exchange(counted, nullptr);
    count_access({thread->block, thread->index, p, bytes, place});
    counted = thread;
}

[[gnu::noinline]] void note_in_memory(const void* p, std::size_t bytes, AccessKind kind,
                                      const void* place) {
    const bool shared = is_shared(p, 1);
    if (counted != nullptr && shared) count(p, bytes, place);
    if (watched == nullptr || !(shared || is_allocated(p, 1))) return;
    note_access(p, bytes, kind, kind == AccessKind::read ? "a read" : "a write", place);
}

/// Most accesses end here.
inline void note(const void* p, std::size_t bytes, AccessKind kind, const void* place) {
    const Thread* const thread = watched != nullptr ? watched : counted;
    // Variables on its stack are the emulated thread's registers.
    if (thread == nullptr || thread->fiber.has_on_stack(p)) return;
    note_in_memory(p, bytes, kind, place);
}

}  // namespace

// NOLINTBEGIN: names that the compiler dictates
extern "C" {
#define GPTRAIN_READ_AND_WRITE(bytes)                                   \
    void __tsan_read##bytes(void* p) {                                  \
        note(p, bytes, AccessKind::read, __builtin_return_address(0));  \
    }                                                                   \
    void __tsan_write##bytes(void* p) {                                 \
        note(p, bytes, AccessKind::write, __builtin_return_address(0)); \
    }                                                                   \
    void __tsan_unaligned_read##bytes(void* p) {                        \
        note(p, bytes, AccessKind::read, __builtin_return_address(0));  \
    }                                                                   \
    void __tsan_unaligned_write##bytes(void* p) {                       \
        note(p, bytes, AccessKind::write, __builtin_return_address(0)); \
    }
GPTRAIN_READ_AND_WRITE(1)
GPTRAIN_READ_AND_WRITE(2)
GPTRAIN_READ_AND_WRITE(4)
GPTRAIN_READ_AND_WRITE(8)
GPTRAIN_READ_AND_WRITE(16)
#undef GPTRAIN_READ_AND_WRITE
void __tsan_read_range(void* p, std::size_t bytes) {
    note(p, bytes, AccessKind::read, __builtin_return_address(0));
}
void __tsan_write_range(void* p, std::size_t bytes) {
    note(p, bytes, AccessKind::write, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void* /*from*/) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** /*at*/, void* /*value*/) {}
void __tsan_vptr_read(void** /*at*/) {}
/// Called by the host's code next to the kernels: counts of shared_ptr.
int __tsan_atomic32_fetch_add(volatile int* p, int x, int /*order*/) {
    return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST);
}
}
// NOLINTEND
