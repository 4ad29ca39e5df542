#include "emulator/fiber.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <utility>

#include "base/error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// gptrain_switch_stacks(save, to): saves what a callee must preserve on the current stack, stores
// the stack pointer in *save, and continues where the stack `to` was left. A jump, because a
// processor predicts that `ret` returns to the call on the current stack.
asm(R"(
.text
.globl gptrain_switch_stacks
.type gptrain_switch_stacks, @function
gptrain_switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmpq *%rcx
.size gptrain_switch_stacks, .-gptrain_switch_stacks

.globl gptrain_enter_fiber
.type gptrain_enter_fiber, @function
gptrain_enter_fiber:
    movq %rbx, %rdi
    callq *%r12
    ud2
.size gptrain_enter_fiber, .-gptrain_enter_fiber
)");

extern "C" {
void gptrain_switch_stacks(void** save, void* to);
void gptrain_enter_fiber();
}

namespace gptrain::emulator {
Fiber::Fiber() {
    void* pages = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) fail_errno(errno, "no memory for a fiber's stack");
    stack_ = static_cast<std::byte*>(pages);
    static std::size_t count = 0;
    unused_ = count++ * step_bytes % most_unused_bytes;
}

Fiber::~Fiber() {
    munmap(stack_, stack_bytes);
}

void Fiber::start(std::function<void()> work) {
    work_ = std::move(work);
    done_ = false;
    inside_fake_ = nullptr;
#ifdef __SANITIZE_ADDRESS__
    // Work that was abandoned midway has left the stack poisoned.
    __asan_unpoison_memory_region(stack_, stack_bytes);
#endif
    // As gptrain_switch_stacks leaves a stack: r15 r14 r13 r12 rbx rbp, then the return address.
    auto* top = reinterpret_cast<void**>(stack_ + stack_bytes - unused_);
    void** frame = top - 9;  // aligns the stack at the call
    std::memset(frame, 0, 9 * sizeof(void*));
    frame[3] = reinterpret_cast<void*>(&Fiber::enter);
    frame[4] = this;
    frame[6] = reinterpret_cast<void*>(&gptrain_enter_fiber);
    inside_ = frame;
}

void Fiber::enter(Fiber* fiber) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &fiber->outside_bottom_, &fiber->outside_size_);
#endif
    fiber->work_();
    fiber->done_ = true;
    fiber->switch_out(true);
}

void Fiber::resume() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&outside_fake_, stack_, stack_bytes);
#endif
    gptrain_switch_stacks(&outside_, inside_);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(outside_fake_, nullptr, nullptr);
#endif
}

void Fiber::leave() {
    switch_out(false);
}

void Fiber::switch_out([[maybe_unused]] bool for_good) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(for_good ? nullptr : &inside_fake_, outside_bottom_,
                                   outside_size_);
#endif
    gptrain_switch_stacks(&inside_, outside_);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(inside_fake_, &outside_bottom_, &outside_size_);
#endif
}

}  // namespace gptrain::emulator
