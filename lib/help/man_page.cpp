#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "base/text.h"
#include "help/formats.h"

namespace gptrain {
namespace {

constexpr std::size_t line_bytes = 78;  // of the source; mandoc asks for at most 80

/// Text that roff shows as it is, hyphens as ASCII's.
std::string roff(std::string_view plain) {
    std::string out;
    for (const char c : plain) {
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else {
            out += c;
        }
    }
    return out;
}

/// A dot or an apostrophe at the beginning of a line would be a request.
std::string text_line(const std::string& line) {
    return (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") + line + "\n";
}

std::string bold(std::string_view plain) {
    return text("\\fB", roff(plain), "\\fR");
}

std::string italic(std::string_view plain) {
    return text("\\fI", roff(plain), "\\fR");
}

/// Words already in roff's language, broken into lines.
std::string filled(const std::string& words) {
    std::istringstream in(words);
    std::string out;
    std::string line;
    for (std::string word; in >> word;) {
        if (!line.empty() && line.size() + 1 + word.size() > line_bytes) {
            out += text_line(line);
            line.clear();
        }
        line += (line.empty() ? "" : " ") + word;
    }
    return line.empty() ? out : out + text_line(line);
}

/// "0 done; 1 a bug" as a list of its numbers.
std::string numbered_list(std::string_view items) {
    std::string out;
    while (!items.empty()) {
        const std::string_view item = items.substr(0, items.find("; "));
        items.remove_prefix(std::min(items.size(), item.size() + 2));
        const std::size_t blank = std::min(item.find(' '), item.size());
        out += text(".TP\n", bold(item.substr(0, blank)), "\n", filled(roff(item.substr(blank))));
    }
    return out;
}

/// The paragraphs of a description or a section.
std::string body_text(const std::string& body) {
    std::string out;
    std::string paragraph;
    bool literal = false;
    const auto end_paragraph = [&] {
        const bool numbers = !paragraph.empty() && std::isdigit(paragraph.front()) != 0 &&
                             paragraph.find("; ") != paragraph.npos;
        if (!paragraph.empty())
            out += numbers ? numbered_list(paragraph) : ".PP\n" + filled(roff(paragraph));
        paragraph.clear();
    };
    const auto set_literal = [&](bool on) {
        if (on != literal) out += on ? ".PP\n.RS 2\n.nf\n" : ".fi\n.RE\n";
        literal = on;
    };
    std::istringstream lines(body);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("  ")) {
            end_paragraph();
            set_literal(true);
            out += text_line(roff(line.substr(2)));
            continue;
        }
        if (!line.empty()) set_literal(false);
        if (line.empty()) {
            end_paragraph();
        } else {
            paragraph += (paragraph.empty() ? "" : " ") + line;
        }
    }
    end_paragraph();
    set_literal(false);
    return out;
}

/// The same right behind a heading, which begins a paragraph itself.
std::string behind_heading(const std::string& paragraphs) {
    constexpr std::string_view begin = ".PP\n";
    return paragraphs.starts_with(begin) ? paragraphs.substr(begin.size()) : paragraphs;
}

/// "--config RUN.yaml" with fonts.
std::string usage_of(const OptionHelp& option) {
    std::string out;
    for (const std::string& name : option.names)
        out += text(out.empty() ? "" : ", ", bold(name));
    if (!option.value.empty()) out += text(out.empty() ? "" : " ", italic(option.value));
    if (option.repeats) out += " ...";
    return out;
}

std::string synopsis(const std::string& name, const CommandHelp& command) {
    std::string words = bold(name);
    for (const OptionHelp& option : command.options) {
        if (option.names.empty() || option.names.back() == "--help") continue;
        words += option.required ? text(" ", usage_of(option)) : text(" [", usage_of(option), "]");
    }
    for (const OptionHelp& option : command.options)
        if (option.names.empty()) words += text(" ", usage_of(option));
    return filled(words);
}

std::string option_list(const std::vector<OptionHelp>& options) {
    std::string out;
    for (const OptionHelp& option : options) {
        std::string words = roff(option.description);
        if (words.empty() || words.back() != '.') words += '.';
        if (!option.default_value.empty())
            words += text(" Default: ", roff(option.default_value), ".");
        for (const std::string& other : option.needs)
            words += text(" Needs ", bold(other), ".");
        out += text(".TP\n", usage_of(option), "\n", filled(words));
    }
    return out;
}

std::string upper(std::string word) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    return word;
}

constexpr std::string_view exit_title = "Exit status";
constexpr std::string_view examples_title = "Examples";

/// A section's text; examples are shown as they are.
std::string section_text(const HelpSection& section) {
    if (section.title != examples_title) return body_text(section.body);
    std::istringstream lines(section.body);
    std::string literal;
    for (std::string line; std::getline(lines, line);)
        literal += text("  ", line, "\n");
    return body_text(literal);
}

/// The sections that are about `title` or, without one, about anything but exit codes and examples.
std::string sections_text(const std::vector<HelpSection>& sections, std::string_view title = "") {
    std::string out;
    for (const HelpSection& section : sections) {
        const bool own = section.title != exit_title && section.title != examples_title;
        if (title.empty() ? own : section.title == title)
            out += text(".SH ", upper(section.title), "\n", behind_heading(section_text(section)));
    }
    return out;
}

std::string command_text(const std::string& program, const CommandHelp& command) {
    const std::string name = text(program, " ", command.name);
    std::string out = text(".SS ", roff(name), "\n", synopsis(name, command),
                           body_text(command.description), option_list(command.options));
    for (const HelpSection& section : command.sections) {
        if (section.title != exit_title)
            out += text(".PP\n", bold(section.title + ":"), "\n", section_text(section));
    }
    return out;
}

}  // namespace

std::string to_man_page(const ProgramHelp& program) {
    const CommandHelp& command = program.command;
    std::string out =
        text(".\\\" Made by ", command.name, " help \\-\\-format man\n.TH ", upper(command.name),
             " 1 \"", program.date, "\" \"", program.version, "\" \"User Commands\"\n.SH NAME\n",
             roff(command.name), " \\- ", program.summary, "\n.SH SYNOPSIS\n",
             synopsis(command.name, command), ".PP\n", bold(command.name),
             " \\fIcommand\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\n",
             behind_heading(body_text(command.description)), sections_text(command.sections),
             ".SH OPTIONS\n", option_list(command.options), ".SH COMMANDS\n");
    for (const CommandHelp& inner : command.commands)
        out += command_text(command.name, inner);
    return out + sections_text(command.sections, exit_title) +
           sections_text(command.sections, examples_title) + sections_text(program.sections);
}

}  // namespace gptrain
