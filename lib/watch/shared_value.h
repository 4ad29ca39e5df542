// A value in memory that processes share: one thread writes it, others read it whole.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <thread>
#include <type_traits>

namespace gptrain {

/// A seqlock over words; all zeros before the first write. If the writer was stopped in the middle,
/// others read the incomplete words.
template <class T>
class SharedValue {
public:
    void write(const T& value);
    T read() const;

private:
    using Word = std::atomic<std::uint64_t>;
    using Words = std::array<std::uint64_t, sizeof(T) / sizeof(std::uint64_t)>;
    static_assert(Word::is_always_lock_free && sizeof(T) % sizeof(Word) == 0);
    static_assert(std::is_trivially_copyable_v<T>);

    Word version_;  ///< odd while the value is being written
    std::array<Word, sizeof(T) / sizeof(Word)> words_;
};

template <class T>
void SharedValue<T>::write(const T& value) {
    const auto words = std::bit_cast<Words>(value);
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version | 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < words.size(); ++i)
        words_[i].store(words[i], std::memory_order_relaxed);
    version_.store((version | 1) + 1, std::memory_order_release);
}

template <class T>
T SharedValue<T>::read() const {
    // A writer may have lost its core in the middle; one that has not finished after all naps is
    // stopped.
    constexpr int spins = 100;
    constexpr int naps = 100;
    Words words{};
    for (int i = 0; i < spins + naps; ++i) {
        if (i >= spins) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::uint64_t before = version_.load(std::memory_order_acquire);
        for (std::size_t word = 0; word < words.size(); ++word)
            words[word] = words_[word].load(std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (before % 2 == 0 && before == version_.load(std::memory_order_relaxed)) break;
    }
    return std::bit_cast<T>(words);
}

}  // namespace gptrain
