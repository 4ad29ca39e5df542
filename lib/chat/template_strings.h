// Python's strings, for chat templates. Texts are valid UTF-8.
#pragma once

#include <string_view>
#include <vector>

namespace gptrain {

enum class StripSides { both, left, right };

/// The text without the characters in `set` at its ends; an empty set is what Python calls white
/// space.
std::string_view strip_text(std::string_view text, std::string_view set, StripSides sides);

std::vector<std::string_view> characters_of(std::string_view text);

}  // namespace gptrain
