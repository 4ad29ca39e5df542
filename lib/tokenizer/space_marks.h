// Spaces as U+2581, the form in which the vocabularies of sentencepiece have them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unicode/unicode.h"

namespace gptrain {

/// U+2581.
constexpr std::string_view space_mark = "\xE2\x96\x81";

struct SpaceMarks {
    /// When a mark is put before a nonempty text.
    enum class Prefix : std::uint8_t {
        none,
        always,
        unless_marked,        ///< unless the text, its spaces replaced, begins with one
        first_unless_marked,  ///< the same, and only at the start of the whole text
    };

    bool replaces = false;  ///< each space becomes a mark
    Prefix prefix = Prefix::none;

    bool changes() const { return replaces || prefix != Prefix::none; }
};

/// The text with marks: `text` itself if there is nothing to do, else a view of `buffer`, which
/// receives it. `parts`, if given, is then filled with the parts in order. `first`: the whole text
/// starts with this one.
std::string_view mark_spaces(std::string_view text, const SpaceMarks& marks, bool first,
                             std::string& buffer, std::vector<NormalizedPart>* parts);

}  // namespace gptrain
