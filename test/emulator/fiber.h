// Stackful coroutines for x86-64: one for each emulated CUDA thread.
#pragma once

#include <cstddef>
#include <functional>

namespace gptrain::emulator {

/// A stack and its point of execution. `resume` runs it until it calls `leave` or its work ends;
/// then it is `done`. Not thread-safe.
class Fiber {
public:
    Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber();

    /// `work` must not throw.
    void start(std::function<void()> work);
    void resume();
    bool done() const { return done_; }
    bool has_on_stack(const void* p) const { return p >= stack_ && p < stack_ + stack_bytes; }

    /// Call it inside the fiber: returns to whoever resumed it.
    void leave();

private:
    static constexpr std::size_t stack_bytes = std::size_t{320} << 10;

    /// Stacks start at different offsets; otherwise all would compete for the same few cache sets.
    static constexpr std::size_t step_bytes = 13 * 64;
    static constexpr std::size_t most_unused_bytes = std::size_t{64} << 10;

    static void enter(Fiber* fiber);
    void switch_out(bool for_good);

    std::byte* stack_ = nullptr;
    std::size_t unused_ = 0;   ///< bytes at the top
    void* inside_ = nullptr;   ///< stack pointer of the fiber while it is suspended
    void* outside_ = nullptr;  ///< stack pointer of its resumer while it runs
    std::function<void()> work_;
    bool done_ = true;
    // AddressSanitizer's data about both stacks.
    void* inside_fake_ = nullptr;
    void* outside_fake_ = nullptr;
    const void* outside_bottom_ = nullptr;
    std::size_t outside_size_ = 0;
};

}  // namespace gptrain::emulator
