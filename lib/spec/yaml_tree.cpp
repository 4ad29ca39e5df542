#include "spec/yaml_tree.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_set>
#include <utility>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

namespace gptrain {
namespace {

constexpr std::size_t max_depth = 16;
constexpr std::size_t max_key_bytes = 100;

[[noreturn]] void fail_at(const YamlSource& source, YamlLocation location, const auto&... parts) {
    if (source.setting) fail(ExitCode::usage, "--set ", source.name, ": ", parts...);
    fail(ExitCode::usage, source.name, ":", location.line, ":", location.column, ": ", parts...);
}

/// Length in bytes of the UTF-8 character at the start of `rest`; 0 if invalid.
std::size_t utf8_length(std::string_view rest) {
    const Utf8Step step = utf8_step(rest);
    return step.kind == Utf8::valid ? step.bytes : 0;
}

bool is_control(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// Rejects what yaml-cpp would accept: it passes on invalid UTF-8, reads byte 4 as the end of the
/// file and skips unknown directives.
void check_text(std::string_view yaml, const YamlSource& source) {
    YamlLocation location = {1, 1};
    bool indenting = true;
    bool tab = false;
    for (std::size_t i = 0; i < yaml.size();) {
        const char c = yaml[i];
        const std::size_t length = utf8_length(yaml.substr(i));
        if (length == 0) fail_at(source, location, "not UTF-8 text");
        if (is_control(c) && c != '\t' && c != '\n' && c != '\r') {
            fail_at(source, location, "control character ", static_cast<int>(c), " is not allowed");
        }
        if (c == '%' && location.column == 1)
            fail_at(source, location, "directives are not allowed");
        tab = tab || (indenting && c == '\t');
        indenting = indenting && (c == ' ' || c == '\t');
        if (!indenting && std::exchange(tab, false) && c != '#' && c != '\n' && c != '\r') {
            fail_at(source, location, "a tab indents this line; indent with spaces");
        }
        location.column += static_cast<int>(length);
        if (c == '\n') {
            location = {location.line + 1, 1};
            indenting = true;
        }
        i += length;
    }
}

class TreeBuilder final : public YAML::EventHandler {
public:
    TreeBuilder(std::string_view yaml, const YamlSource& source) : yaml_(yaml), source_(source) {}

    YamlNode take_root() { return std::move(root_); }

    /// Throws yaml-cpp's exception as an Error. If something is not closed, the location is where
    /// it starts: yaml-cpp's own mark is the end of the file.
    [[noreturn]] void fail_syntax(const YAML::Exception& fault) const {
        namespace msg = YAML::ErrorMsg;
        if ((fault.msg == msg::END_OF_MAP_FLOW || fault.msg == msg::END_OF_SEQ_FLOW) &&
            !open_.empty()) {
            const bool list = open_.back().node.kind == YamlNode::Kind::list;
            fail_at(source_, open_.back().node.location, "not valid YAML: this ", list ? '[' : '{',
                    " is not closed");
        }
        if (fault.msg == msg::EOF_IN_SCALAR) {
            fail_at(source_, last_, "not valid YAML: a quote after this point is not closed");
        }
        fail_at(source_, location_of(fault.mark), "not valid YAML: ", fault.msg);
    }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (std::exchange(started_, true)) {
            fail_at(source_, location_of(mark),
                    "a second document starts here; only one is allowed");
        }
    }
    void OnDocumentEnd() override {}
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        fail_at(source_, location_of(mark), "aliases are not allowed");
    }
    void OnAnchor(const YAML::Mark& mark, const std::string&) override {
        fail_at(source_, location_of(mark), "anchors are not allowed");
    }
    void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
        add(node(YamlNode::Kind::null, mark));
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  const std::string& value) override {
        check_tag(mark, tag);
        YamlNode scalar = node(YamlNode::Kind::scalar, mark);
        scalar.scalar = value;
        scalar.quoted = tag == "!";
        if (scalar.quoted) check_quote_closed(mark);
        add(std::move(scalar));
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {
        check_tag(mark, tag);
        enter(node(YamlNode::Kind::list, mark));
    }
    void OnSequenceEnd() override { leave(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {
        check_tag(mark, tag);
        enter(node(YamlNode::Kind::map, mark));
    }
    void OnMapEnd() override { leave(); }

private:
    /// A list or map that has not ended yet.
    struct OpenNode {
        YamlNode node;
        std::optional<YamlMember> pending;  ///< a key without its value yet
        std::unordered_set<std::string> keys;
    };

    static YamlLocation location_of(const YAML::Mark& mark) {
        return {std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
    }

    /// Makes a node and remembers its location as the last one reached.
    YamlNode node(YamlNode::Kind kind, const YAML::Mark& mark) {
        last_ = location_of(mark);
        return {kind, source_.setting ? YamlLocation{} : last_};
    }

    void check_tag(const YAML::Mark& mark, const std::string& tag) const {
        // yaml-cpp marks plain values with "?" and quoted ones with "!".
        if (!tag.empty() && tag != "?" && tag != "!") {
            fail_at(source_, location_of(mark), "tags are not allowed");
        }
    }

    /// yaml-cpp accepts quoted text that ends with the file, if a line break comes before the end.
    void check_quote_closed(const YAML::Mark& mark) const {
        const auto start = static_cast<std::size_t>(std::max(mark.pos, 0));
        const char quote = start < yaml_.size() ? yaml_[start] : ' ';
        if (quote != '"' && quote != '\'') return;  // a block of text
        for (std::size_t i = start + 1; i < yaml_.size(); ++i) {
            const bool doubled = quote == '\'' && yaml_.substr(i).starts_with("''");
            if (doubled || (quote == '"' && yaml_[i] == '\\')) {
                ++i;
            } else if (yaml_[i] == quote) {
                return;
            }
        }
        fail_at(source_, location_of(mark), "this ", quote, " is not closed");
    }

    void enter(YamlNode start) {
        if (open_.size() >= max_depth) {
            fail_at(source_, start.location, "nested more than ", max_depth, " deep");
        }
        open_.push_back({std::move(start), std::nullopt, {}});
    }

    void leave() {
        YamlNode whole = std::move(open_.back().node);
        open_.pop_back();
        add(std::move(whole));
    }

    void add(YamlNode made) {
        if (open_.empty()) {
            root_ = std::move(made);
            return;
        }
        OpenNode& top = open_.back();
        if (top.node.kind == YamlNode::Kind::list) {
            top.node.items.push_back(std::move(made));
        } else if (top.pending) {
            if (made.kind == YamlNode::Kind::null) made.location = top.pending->location;
            top.pending->value = std::move(made);
            top.node.members.push_back(*std::exchange(top.pending, std::nullopt));
        } else {
            add_key(top, made);
        }
    }

    void add_key(OpenNode& map, const YamlNode& key) const {
        const bool word = key.kind == YamlNode::Kind::scalar &&
                          key.scalar.size() <= max_key_bytes && is_one_line(key.scalar);
        if (!word) fail_at(source_, key.location, "a key must be a word, not ", display_text(key));
        if (!map.keys.insert(key.scalar).second) {
            fail_at(source_, key.location, key.scalar, ": duplicate key; remove one of the two");
        }
        map.pending = YamlMember{key.scalar, key.location, {}};
    }

    std::string_view yaml_;
    const YamlSource& source_;
    std::vector<OpenNode> open_;
    YamlNode root_;
    YamlLocation last_ = {1, 1};
    bool started_ = false;
};

}  // namespace

YamlNode::YamlNode() = default;
YamlNode::YamlNode(Kind what, YamlLocation where) : kind(what), location(where) {}

YamlNode* YamlNode::find(std::string_view key) {
    const auto found = std::find_if(members.begin(), members.end(),
                                    [&](const YamlMember& member) { return member.key == key; });
    return found == members.end() ? nullptr : &found->value;
}

const YamlNode* YamlNode::find(std::string_view key) const {
    return const_cast<YamlNode*>(this)->find(key);
}

YamlNode parse_yaml(std::string_view yaml, const YamlSource& source) {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (yaml.starts_with(byte_order_mark)) yaml.remove_prefix(byte_order_mark.size());
    check_text(yaml, source);
    TreeBuilder builder(yaml, source);
    try {
        std::istringstream in{std::string(yaml)};
        YAML::Parser parser(in);
        // The second call only checks: it fails if there is a second document.
        if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
    } catch (const YAML::Exception& fault) {
        builder.fail_syntax(fault);
    }
    return builder.take_root();
}

bool is_one_line(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t length = utf8_length(text.substr(i));
        if (length == 0 || is_control(text[i])) return false;
        i += length;
    }
    return true;
}

std::string display_text(std::string_view text) {
    constexpr std::size_t limit = 40;
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        if (out.size() >= limit) return out + "...";
        const std::size_t length = std::max<std::size_t>(1, utf8_length(text.substr(i)));
        out += is_control(text[i]) ? " " : text.substr(i, length);
        i += length;
    }
    return out;
}

std::string display_text(const YamlNode& node) {
    switch (node.kind) {
        case YamlNode::Kind::null: return "nothing";
        case YamlNode::Kind::list: return text("a list of ", node.items.size());
        case YamlNode::Kind::map: return "a section";
        case YamlNode::Kind::scalar: break;
    }
    return node.quoted ? text('"', display_text(node.scalar), "\" in quotes")
                       : display_text(node.scalar);
}

}  // namespace gptrain
