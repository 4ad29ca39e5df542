// Values in files and messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace gptrain {

/// The T whose bytes begin at `begin`, aligned or not; all of them must be there.
template <class T>
T value_at(std::span<const std::byte> bytes, std::int64_t begin) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, bytes.data() + begin, sizeof value);
    return value;
}

}  // namespace gptrain
