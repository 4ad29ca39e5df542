#include "tasks/clean_text.h"

#include <array>
#include <utility>

#include "chat/template_strings.h"

namespace gptrain {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
    std::string out;
    while (true) {
        const std::size_t at = text.find(from);
        out += text.substr(0, at);
        if (at == text.npos) return out;
        out += to;
        text.remove_prefix(at + from.size());
    }
}

/// Without what stands in brackets on one line.
std::string without_brackets(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t open = text.find('[');
        out += text.substr(0, open);
        if (open == text.npos) break;
        text.remove_prefix(open);
        const std::size_t end = text.find_first_of("]\n");
        const bool closed = end != text.npos && text[end] == ']';
        if (!closed) out += '[';
        text.remove_prefix(closed ? end + 1 : 1);
    }
    return out;
}

/// Without white space behind each `open` and before the `close` that follows it.
std::string trimmed_inside(std::string_view text, char open, char close) {
    std::string out;
    while (true) {
        const std::size_t begin = text.find(open);
        const std::size_t end = begin == text.npos ? text.npos : text.find(close, begin + 1);
        if (end == text.npos) break;
        out += text.substr(0, begin + 1);
        out += strip_text(text.substr(begin + 1, end - begin - 1), "", StripSides::both);
        out += close;
        text.remove_prefix(end + 1);
    }
    return out += text;
}

using Replacement = std::pair<std::string_view, std::string_view>;

std::string clean_hellaswag(std::string_view text) {
    const std::string titled = replaced(strip_text(text, "", StripSides::both), " [title]", ". ");
    return replaced(without_brackets(titled), "  ", " ");
}

std::string clean_wikitext(std::string text) {
    constexpr auto before = std::to_array<Replacement>({{"s '", "s'"},
                                                        {" @-@ ", "-"},
                                                        {" @,@ ", ","},
                                                        {" @.@ ", "."},
                                                        {" : ", ": "},
                                                        {" ; ", "; "},
                                                        {" . ", ". "},
                                                        {" ! ", "! "},
                                                        {" ? ", "? "},
                                                        {" , ", ", "}});
    constexpr auto around = std::to_array<std::pair<char, char>>(
        {{'(', ')'}, {'[', ']'}, {'{', '}'}, {'"', '"'}, {'\'', '\''}});
    constexpr auto after = std::to_array<Replacement>({{"= = = =", "===="},
                                                       {"= = =", "==="},
                                                       {"= =", "=="},
                                                       {" \u00B0 ", "\u00B0"},
                                                       {" \n", "\n"},
                                                       {"\n ", "\n"},
                                                       {" N ", " 1 "},
                                                       {" 's", "'s"}});
    for (const auto& [from, to] : before)
        text = replaced(text, from, to);
    for (const auto& [open, close] : around)
        text = trimmed_inside(text, open, close);
    for (const auto& [from, to] : after)
        text = replaced(text, from, to);
    return text;
}

/// True for " = Title = ", but not for the headings of sections, " = = Title = = ".
bool begins_page(std::string_view line) {
    const std::string joined = replaced(replaced(line, "= = =", "==="), "= =", "==");
    const std::string_view title = strip_text(joined, "", StripSides::both);
    return title.starts_with("= ") && title.ends_with(" =");
}

}  // namespace

std::vector<std::string> wikitext_pages(std::string_view text) {
    std::vector<std::string> pages;
    std::string page;
    const auto add_page = [&] {
        if (!strip_text(page, "", StripSides::both).empty()) pages.push_back(page);
        page.clear();
    };
    bool first_line = true;
    while (true) {
        const std::size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        if (begins_page(line)) {
            add_page();
            first_line = true;
        }
        page += first_line ? "" : "\n";
        page += line;
        first_line = false;
        if (end == text.npos) break;
        text.remove_prefix(end + 1);
    }
    add_page();
    return pages;
}

std::string clean_text(std::string text, TextCleaning cleaning) {
    switch (cleaning) {
        case TextCleaning::none: break;
        case TextCleaning::hellaswag: return clean_hellaswag(text);
        case TextCleaning::wikitext: return clean_wikitext(std::move(text));
    }
    return text;
}

}  // namespace gptrain
