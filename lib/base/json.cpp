#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace gptrain {
namespace {

constexpr int max_depth = 64;

/// A key from the file, for a message: JSON-escaped, so on one line, and truncated.
std::string quoted_key(std::string_view key) {
    constexpr std::size_t limit = 40;
    const std::string json = to_line(Json(key.substr(0, limit)));
    return text("'", json.substr(1, json.size() - 2), key.size() > limit ? "...'" : "'");
}

bool fits_integer(const Json& value) {
    return value.is_number_integer() &&
           (!value.is_number_unsigned() || std::in_range<std::int64_t>(value.get<std::uint64_t>()));
}

/// The words that Python's json writes for numbers that JSON does not have.
constexpr std::pair<std::string_view, double> python_numbers[] = {
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", std::numeric_limits<double>::infinity()},
    {"-Infinity", -std::numeric_limits<double>::infinity()}};

/// The JSON with these words replaced by numbers of the same length, so that positions stay valid.
struct PlainNumbers {
    struct Replaced {
        std::int64_t number;  ///< its index among the text's numbers, from 0
        double value;
    };
    std::string json;
    std::vector<Replaced> replaced;
};

/// The end of the string that begins at `at`.
std::size_t string_end(std::string_view json, std::size_t at) {
    for (++at; at < json.size() && json[at] != '"'; ++at)
        if (json[at] == '\\') ++at;
    return std::min(at + 1, json.size());
}

PlainNumbers replace_python_numbers(std::string_view json) {
    constexpr std::string_view of_words =
        "+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    PlainNumbers plain = {std::string(json), {}};
    std::int64_t numbers = 0;
    for (std::size_t at = 0; at < json.size();) {
        if (json[at] == '"') {
            at = string_end(json, at);
            continue;
        }
        const std::size_t end = std::min(json.find_first_not_of(of_words, at), json.size());
        const std::string_view word = json.substr(at, end - at);
        const auto found =
            std::ranges::find(python_numbers, word, &std::pair<std::string_view, double>::first);
        if (found != std::end(python_numbers)) {
            const std::size_t sign = word.starts_with('-') ? 1 : 0;
            plain.json.replace(at + sign, word.size() - sign, word.size() - sign, '0');
            plain.json[at + sign + 1] = '.';
            plain.replaced.push_back({numbers++, found->second});
        } else if (!word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'))) {
            ++numbers;
        }
        at = std::max(end, at + 1);
    }
    return plain;
}

/// Builds a value from parser events and rejects what nlohmann's builder accepts: duplicate keys
/// and deep nesting.
class StrictBuilder : public nlohmann::json_sax<Json> {
public:
    /// `not_finite`: the numbers of the text whose value differs from the text, in order.
    StrictBuilder(std::string_view json, std::string_view source,
                  std::span<const PlainNumbers::Replaced> not_finite)
        : json_(json), source_(source), not_finite_(not_finite) {}

    Json take() { return std::move(root_); }

    bool null() override { return add(Json()); }
    bool boolean(bool value) override { return add(Json(value)); }
    bool number_integer(std::int64_t value) override { return add_number(Json(value)); }
    bool number_unsigned(std::uint64_t value) override { return add_number(Json(value)); }
    bool number_float(double value, const std::string& /*text*/) override {
        return add_number(Json(value));
    }
    bool string(std::string& value) override { return add(Json(std::move(value))); }
    bool binary(Json::binary_t& /*value*/) override { return false; }

    bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
    bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(std::string& value) override {
        if (!open_.back().is_new(value)) {
            fail(ExitCode::bad_input, source_, ": duplicate key ", quoted_key(value));
        }
        key_ = std::move(value);
        return true;
    }
    bool parse_error(std::size_t position, const std::string& /*token*/,
                     const nlohmann::detail::exception& error) override {
        const auto before =
            json_.substr(0, std::min(position == 0 ? 0 : position - 1, json_.size()));
        const auto line = 1 + std::count(before.begin(), before.end(), '\n');
        const auto column = before.size() - (before.rfind('\n') + 1) + 1;
        constexpr int out_of_range = 406;
        if (error.id == out_of_range)
            fail(ExitCode::bad_input, source_, ":", line, ":", column,
                 ": a number is too large for double precision");
        std::string_view why = error.what();
        if (const auto at = why.rfind("- "); at != std::string_view::npos)
            why.remove_prefix(at + 2);
        // It ends with the last token, which may be long.
        why = why.substr(0, 200);
        fail(ExitCode::bad_input, source_, ":", line, ":", column, ": not valid JSON: ", why);
    }

private:
    /// A container that is not closed yet.
    struct Open {
        Json* value;
        std::unordered_set<std::string> keys = {};  ///< of a large object

        /// True if the object has no such key. nlohmann searches linearly, which is fastest for few
        /// keys but quadratic for many.
        bool is_new(const std::string& key) {
            constexpr std::size_t few = 16;
            if (value->size() < few) return !value->contains(key);
            if (keys.empty()) {
                for (const auto& [name, member] : value->items())
                    keys.insert(name);
            }
            return keys.insert(key).second;
        }
    };

    Json* place(Json value) {
        if (open_.empty()) {
            root_ = std::move(value);
            return &root_;
        }
        Json& parent = *open_.back().value;
        if (parent.is_array()) {
            parent.push_back(std::move(value));
            return &parent.back();
        }
        // The key is known to be new; operator[] would search for it.
        auto& members = parent.get_ref<Json::object_t&>();
        return &members.Json::object_t::Container::emplace_back(std::move(key_), std::move(value))
                    .second;
    }
    bool add(Json value) {
        place(std::move(value));
        return true;
    }
    bool add_number(Json value) {
        if (not_finite_.empty() || not_finite_.front().number != numbers_++)
            return add(std::move(value));
        value = not_finite_.front().value;
        not_finite_ = not_finite_.subspan(1);
        return add(std::move(value));
    }
    bool open(Json value) {
        if (static_cast<int>(open_.size()) >= max_depth) {
            fail(ExitCode::bad_input, source_, ": nested deeper than ", max_depth, " levels");
        }
        open_.push_back({place(std::move(value))});
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    std::string_view json_;
    std::string_view source_;
    std::span<const PlainNumbers::Replaced> not_finite_;
    std::int64_t numbers_ = 0;  ///< that came so far
    Json root_;
    // Only the innermost container grows, so pointers to the outer ones stay valid.
    std::vector<Open> open_;
    std::string key_;
};

}  // namespace

Json parse_json(std::string_view json, std::string_view source) {
    // nlohmann treats NUL as the end, whatever follows, and skips a byte order mark.
    if (json.find('\0') != std::string_view::npos || json.starts_with("\xEF\xBB\xBF")) {
        fail(ExitCode::bad_input, source, ": not valid JSON: a NUL byte or a byte order mark");
    }
    PlainNumbers plain;
    if (json.find("NaN") != json.npos || json.find("Infinity") != json.npos) {
        plain = replace_python_numbers(json);
        json = plain.json;
    }
    StrictBuilder builder(json, source, plain.replaced);
    if (!Json::sax_parse(json.begin(), json.end(), &builder)) {
        fail(ExitCode::bad_input, source, ": not valid JSON");
    }
    return builder.take();
}

JsonReader::JsonReader(const Json& object, std::string source)
    : object_(object), source_(std::move(source)) {
    if (!object.is_object()) fail(ExitCode::bad_input, source_, ": must be a JSON object");
}

const Json& JsonReader::member(std::string_view key) const {
    const auto found = object_.find(std::string(key));
    if (found == object_.end()) fail(ExitCode::bad_input, source_, ": key '", key, "' is missing");
    return *found;
}

std::int64_t JsonReader::integer(std::string_view key) const {
    const Json& value = member(key);
    if (!fits_integer(value))
        fail(ExitCode::bad_input, source_, ": '", key, "' must be an integer");
    return value.get<std::int64_t>();
}

double JsonReader::number(std::string_view key) const {
    const Json& value = member(key);
    if (!value.is_number()) fail(ExitCode::bad_input, source_, ": '", key, "' must be a number");
    const auto number = value.get<double>();
    if (!std::isfinite(number))
        fail(ExitCode::bad_input, source_, ": '", key, "' is NaN or infinite, must be a number");
    return number;
}

bool JsonReader::boolean(std::string_view key) const {
    const Json& value = member(key);
    if (!value.is_boolean()) {
        fail(ExitCode::bad_input, source_, ": '", key, "' must be true or false");
    }
    return value.get<bool>();
}

const std::string& JsonReader::string(std::string_view key) const {
    const Json& value = member(key);
    if (!value.is_string()) fail(ExitCode::bad_input, source_, ": '", key, "' must be a string");
    return value.get_ref<const std::string&>();
}

const Json& JsonReader::object(std::string_view key) const {
    const Json& value = member(key);
    if (!value.is_object()) fail(ExitCode::bad_input, source_, ": '", key, "' must be an object");
    return value;
}

const Json& JsonReader::array(std::string_view key) const {
    const Json& value = member(key);
    if (!value.is_array()) fail(ExitCode::bad_input, source_, ": '", key, "' must be an array");
    return value;
}

std::vector<std::int64_t> JsonReader::integers(std::string_view key) const {
    std::vector<std::int64_t> numbers;
    for (const Json& value : array(key)) {
        if (!fits_integer(value)) {
            fail(ExitCode::bad_input, source_, ": '", key, "' must contain only integers");
        }
        numbers.push_back(value.get<std::int64_t>());
    }
    return numbers;
}

bool JsonReader::has(std::string_view key) const {
    return object_.contains(std::string(key));
}

void JsonReader::allow_only(std::initializer_list<std::string_view> known,
                            std::initializer_list<std::string_view> more) const {
    for (const auto& [key, value] : object_.items())
        if (!std::ranges::count(known, key) && !std::ranges::count(more, key))
            fail(ExitCode::bad_input, source_, ": unknown key ", quoted_key(key));
}

std::string to_line(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_document(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gptrain
