// Values of templates: those of Jinja that published chat templates use, and the limits under which
// a template is evaluated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace gptrain {

struct TemplateItems;

/// A value; copies share strings, lists and dicts.
struct TemplateValue {
    enum class Kind { undefined, none, boolean, integer, string, list, dict, space };

    Kind kind = Kind::undefined;
    std::int64_t number = 0;                  ///< boolean, integer
    std::shared_ptr<const std::string> text;  ///< string; of an undefined value what it is called
    std::shared_ptr<TemplateItems> items;     ///< list, dict, space (a namespace)

    bool is(Kind wanted) const { return kind == wanted; }
    bool is_string() const { return kind == Kind::string; }
    bool has_items() const { return items != nullptr; }
    /// Of a string.
    std::string_view string() const { return *text; }
};

/// The elements of a list, or keys and values of a dict.
struct TemplateItems {
    std::vector<std::string> keys;  ///< empty for a list
    std::vector<TemplateValue> values;
    std::int64_t depth = 1;  ///< of nesting

    const TemplateValue* find(std::string_view key) const;
};

/// The state of one evaluation: its line, and how much work it has done.
class TemplateRun {
public:
    /// `source`: the name of the template in errors.
    explicit TemplateRun(std::string source) : source_(std::move(source)) {}

    /// Errors (bad_input) begin with source and line.
    [[noreturn]] void fail(const auto&... parts) const {
        gptrain::fail(ExitCode::bad_input, source_, ": line ", line, ": ", parts...);
    }
    /// Counts work; beyond the limit an Error.
    void count(std::int64_t work);
    /// The same for the bytes of a text.
    void count_bytes(std::size_t bytes) { count(static_cast<std::int64_t>(bytes / 32) + 1); }

    std::int64_t line = 1;  ///< of the template
    /// Printing an undefined value is an Error, not an empty text.
    bool strict = false;

private:
    std::string source_;
    std::int64_t work_ = 0;
};

TemplateValue undefined_value(std::string name);
TemplateValue none_value();
TemplateValue boolean_value(bool value);
TemplateValue integer_value(std::int64_t value);
TemplateValue string_value(std::string value);
/// Error above 64 levels of nesting.
TemplateValue list_value(const TemplateRun& run, std::vector<TemplateValue> values);
TemplateValue dict_value(const TemplateRun& run, std::vector<std::string> keys,
                         std::vector<TemplateValue> values);
/// A namespace: a dict that can be changed, and that no other value can contain.
TemplateValue space_value(std::vector<std::string> keys, std::vector<TemplateValue> values);
/// Error for numbers that are not 64-bit integers.
TemplateValue value_of(const TemplateRun& run, const Json& json);

/// True if Python treats the value as true.
bool is_true(const TemplateValue& value);
/// Error for lists and dicts that are not empty: templates compare texts and numbers.
bool are_equal(const TemplateRun& run, const TemplateValue& a, const TemplateValue& b);
/// The text that a template prints for the value. Error for lists and dicts, and in a strict run
/// for undefined values.
std::string printed(const TemplateRun& run, const TemplateValue& value);
/// "a string", "a list", ... for errors.
std::string_view kind_name(const TemplateValue& value);
/// As Python's json.dumps writes it without escaping.
std::string json_of(TemplateRun& run, const TemplateValue& value);

}  // namespace gptrain
