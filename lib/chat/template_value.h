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
struct TemplateNode;

/// A value; copies share strings, lists and dicts.
struct TemplateValue {
    enum class Kind {
        undefined,
        none,
        boolean,
        integer,
        real,
        string,
        list,
        dict,
        space,    ///< a namespace: a dict that can be changed, and that no other value can contain
        callable  ///< a macro, or a function or method that is not called
    };

    Kind kind = Kind::undefined;
    /// boolean, integer; of a string 1 if it is marked as safe; of a macro the scope that it is
    /// defined in.
    std::int64_t number = 0;
    double real = 0;
    std::shared_ptr<const std::string> text;  ///< string; of an undefined value what it is called
    std::shared_ptr<TemplateItems> items;     ///< list, dict, space
    const TemplateNode* macro = nullptr;      ///< callable; null unless it is a macro

    bool is(Kind wanted) const { return kind == wanted; }
    bool is_string() const { return kind == Kind::string; }
    bool has_items() const { return items != nullptr; }
    /// Python's int, of which bool is a kind.
    bool is_whole() const { return kind == Kind::integer || kind == Kind::boolean; }
    bool is_number() const { return is_whole() || kind == Kind::real; }
    /// Of a number.
    double as_real() const { return is(Kind::real) ? real : static_cast<double>(number); }
    /// Of a string.
    std::string_view string() const { return *text; }
};

/// The elements of a list, or keys and values of a dict.
struct TemplateItems {
    /// Python's list and tuple, and what it makes while it is read (a generator): that is true even
    /// if it is empty, and has no length.
    enum class Form { list, tuple, lazy };

    std::vector<TemplateValue> keys;  ///< texts, numbers or none; empty for a list
    std::vector<TemplateValue> values;
    Form form = Form::list;
    std::int64_t depth = 1;  ///< of nesting

    /// The value of a key; null if there is none.
    const TemplateValue* find(const TemplateValue& key) const;
    /// Gives a key this value.
    void put(const TemplateValue& key, TemplateValue value);
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

    /// Statements, expressions and macros that are being evaluated inside of each other; too many
    /// are an Error.
    class Level {
    public:
        explicit Level(TemplateRun& run) : run_(run) {
            if (++run_.levels_ > max_levels)
                run_.fail("more than ", max_levels, " levels of nested expressions and macros");
        }
        ~Level() { --run_.levels_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        TemplateRun& run_;
    };

    std::int64_t line = 1;  ///< of the template
    /// Printing an undefined value is an Error, not an empty text.
    bool strict = false;

private:
    static constexpr std::int64_t max_levels = 1000;

    std::string source_;
    std::int64_t work_ = 0;
    std::int64_t levels_ = 0;
};

TemplateValue undefined_value(std::string name);
TemplateValue none_value();
TemplateValue boolean_value(bool value);
TemplateValue integer_value(std::int64_t value);
TemplateValue real_value(double value);
TemplateValue string_value(std::string value);
/// Error above 64 levels of nesting.
TemplateValue list_value(const TemplateRun& run, std::vector<TemplateValue> values,
                         TemplateItems::Form form = TemplateItems::Form::list);
TemplateValue dict_value(const TemplateRun& run, std::vector<TemplateValue> keys,
                         std::vector<TemplateValue> values);
TemplateValue space_value(std::vector<TemplateValue> keys, std::vector<TemplateValue> values);
std::vector<TemplateValue> string_values(const std::vector<std::string>& strings);
/// A macro that is defined in the scope of this number; without a node a function.
TemplateValue callable_value(const TemplateNode* macro = nullptr, std::int64_t scope = 0);
/// Error for whole numbers that do not fit into 64 bits.
TemplateValue value_of(const TemplateRun& run, const Json& json);

/// True if Python treats the value as true.
bool is_true(const TemplateValue& value);
bool are_equal(TemplateRun& run, const TemplateValue& a, const TemplateValue& b);
/// Below, equal or above 0, as a comes before b, is equal or comes after it. Error for values that
/// Python does not order, and for lists.
int order_of(const TemplateRun& run, const TemplateValue& a, const TemplateValue& b);
/// "a string", "a list", ... for errors.
std::string_view kind_name(const TemplateValue& value);

}  // namespace gptrain
