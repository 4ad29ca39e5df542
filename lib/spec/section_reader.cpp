#include "spec/section_reader.h"

#include <cstdlib>
#include <system_error>

#include "base/path_checks.h"

namespace gptrain {
namespace {

struct PathText {
    bool accepts(const std::string& value) const { return !value.empty() && value.size() < 4096; }
    std::string description() const { return "a path in UTF-8, without control characters"; }
};

}  // namespace

std::string nearest_key(std::string_view key, const SpecValue& given,
                        const std::vector<std::string_view>& known) {
    const std::string prefix = given.path.empty() ? "" : text(given.path, ".");
    if (const auto near = nearest(key, known)) return text("nearest: ", prefix, *near);
    for (const std::string& path : given.file.key_paths) {
        if (path.ends_with(text(".", key)) || path == key) return text("nearest: ", path);
    }
    return text("known here: ", choice_of(known));
}

std::string number_hint(const YamlNode& node, bool number) {
    if (node.kind != YamlNode::Kind::scalar || (number && !node.quoted)) return "";
    return node.quoted ? "; remove the quotes" : "; write plain decimal digits";
}

std::optional<std::int64_t> integer_in(const YamlNode& node) {
    const std::string_view word = node.scalar;
    const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
    const bool octal = digits.size() > 1 && digits.front() == '0';
    return node.quoted || octal ? std::nullopt : parse_int(word);
}

void read(const SpecValue& given, std::int64_t& value, const IntRange& range) {
    const auto number = integer_in(given.node);
    if (!number || !range.accepts(*number)) {
        given.reject(range.description(), number_hint(given.node, number.has_value()));
    }
    value = *number;
}

void read(const SpecValue& given, std::uint64_t& value, const IntRange& range) {
    std::int64_t number = 0;
    read(given, number, range);
    value = static_cast<std::uint64_t>(number);
}

void read(const SpecValue& given, double& value, const RealRange& range) {
    const auto number = parse_double(given.node.scalar);
    if (given.node.quoted || !number || !range.accepts(*number)) {
        given.reject(range.description(), number_hint(given.node, number.has_value()));
    }
    value = *number;
}

void read(const SpecValue& given, bool& value, Any) {
    const std::string& word = given.node.scalar;
    if (given.node.quoted || (word != "true" && word != "false")) {
        given.reject("true or false");
    }
    value = word == "true";
}

void read(const SpecValue& given, std::filesystem::path& value, Any) {
    std::string word;
    read(given, word, PathText{});
    if (word == "~" || word.starts_with("~/")) {
        const char* const home = std::getenv("HOME");
        given.fail_here("found ", word, "; `~` is not expanded; write ",
                        home != nullptr ? text(home, word.substr(1)) : "the whole path");
    }
    std::error_code error;
    value = std::filesystem::absolute(word, error).lexically_normal();
    if (error) fail(ExitCode::io, "the current folder: ", error.message());
    if (!value.has_filename() && value.has_relative_path()) value = value.parent_path();
    if (const std::string variable = unexpanded_variable(value); !variable.empty())
        given.fail_here("found ", word, "; ", variable,
                        " is not expanded; write the path that it stands for");
    // The path now includes the current folder's name and must be valid in YAML.
    if (!is_one_line(value.string())) given.reject(PathText{}.description());
}

std::string nearest_hint(const SpecValue& given, std::vector<std::string_view> words) {
    if (!given.open_word.empty()) words.push_back(given.open_word);
    const auto known = [&](std::string_view word) {
        return std::find(words.begin(), words.end(), word) != words.end();
    };
    for (const auto& [foreign, word] : synonyms) {
        if (given.node.scalar == foreign && known(word)) return text("; nearest: ", word);
    }
    const auto near = nearest(given.node.scalar, words);
    return near ? text("; nearest: ", *near) : "";
}

}  // namespace gptrain
