// Uses bytes as a sequence of choices, for targets that build their file from the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gptrain::test {

class Choices {
public:
    Choices(const std::uint8_t* bytes, std::size_t size) : rest_(bytes, size) {}

    /// A number from 0 to `most`, at most 255; 0 when no bytes are left.
    int up_to(int most) {
        if (rest_.empty()) return 0;
        const int byte = rest_.front();
        rest_ = rest_.subspan(1);
        return byte % (most + 1);
    }

    bool yes() { return up_to(1) == 1; }

    /// One of `values`.
    template <class T, std::size_t count>
    const T& one_of(const T (&values)[count]) {
        return values[static_cast<std::size_t>(up_to(static_cast<int>(count) - 1))];
    }

private:
    std::span<const std::uint8_t> rest_;
};

}  // namespace gptrain::test
