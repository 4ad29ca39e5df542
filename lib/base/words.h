// Enumerations with a word for each value.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace gptrain {

/// words_of: the table of an enumeration. The argument only selects the overload.
template <class E>
using Word = std::pair<E, std::string_view>;

template <class E>
concept Enumeration = requires(E value) {
    words_of(value);
};

/// The word for a value ("1f1b", "rmsnorm", ...).
template <Enumeration E>
constexpr std::string_view name_of(E value) {
    for (const auto& [candidate, word] : words_of(value)) {
        if (candidate == value) return word;
    }
    return "?";
}

}  // namespace gptrain
