#include "tokenizer/space_marks.h"

#include <algorithm>

namespace gptrain {
namespace {

bool takes_prefix(std::string_view text, const SpaceMarks& marks, bool first) {
    using Prefix = SpaceMarks::Prefix;
    if (text.empty() || marks.prefix == Prefix::none) return false;
    if (marks.prefix == Prefix::always) return true;
    if (marks.prefix == Prefix::first_unless_marked && !first) return false;
    return !text.starts_with(space_mark) && !(marks.replaces && text.starts_with(' '));
}

}  // namespace

std::string_view mark_spaces(std::string_view text, const SpaceMarks& marks, bool first,
                             std::string& buffer, std::vector<NormalizedPart>* parts) {
    const bool prefix = takes_prefix(text, marks, first);
    if (!prefix && !(marks.replaces && text.find(' ') != text.npos)) return text;
    buffer.clear();
    if (parts != nullptr) parts->clear();
    const auto note = [&](std::size_t at, bool same) {
        if (parts != nullptr) parts->push_back({buffer.size(), at, same});
    };
    if (prefix) {
        note(0, false);
        buffer += space_mark;
    }
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end =
            marks.replaces ? std::min(text.find(' ', at), text.size()) : text.size();
        if (end > at) {
            note(at, true);
            buffer += text.substr(at, end - at);
        }
        at = end;
        if (at == text.size()) break;
        note(at++, false);
        buffer += space_mark;
    }
    return buffer;
}

}  // namespace gptrain
