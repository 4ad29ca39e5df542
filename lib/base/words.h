// Enumerations with a word for each value.
#pragma once

#include <array>
#include <cstddef>
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

/// The number of values up to `last`. Does not compile unless each of them has a word, in their
/// order, so that arrays by value have the right size.
template <Enumeration E>
consteval int count_to(E last) {
    const auto words = words_of(last);
    for (std::size_t i = 0; i < words.size(); ++i)
        if (static_cast<std::size_t>(words[i].first) != i) throw "the words are in another order";
    if (words.size() != static_cast<std::size_t>(last) + 1) throw "a value has no word";
    return static_cast<int>(words.size());
}

}  // namespace gptrain
