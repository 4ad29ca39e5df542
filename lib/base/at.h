// Elements by 64-bit index. Sizes are std::int64_t everywhere.
#pragma once

#include <cstddef>
#include <utility>

namespace gptrain {

/// values[index] for an index in range, an integer or an enumerator.
template <class Values>
constexpr decltype(auto) at(Values&& values, auto index) {
    return std::forward<Values>(values)[static_cast<std::size_t>(index)];
}

}  // namespace gptrain
