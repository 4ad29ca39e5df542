// Letters of ASCII, independent of the locale.
#pragma once

#include <string>
#include <string_view>

namespace gptrain {

/// The word with the letters A to Z in lower case.
inline std::string in_lower_case(std::string_view word) {
    std::string lower(word);
    for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return lower;
}

}  // namespace gptrain
