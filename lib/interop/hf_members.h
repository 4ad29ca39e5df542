// The members of a config.json, as the readers of its sections see them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace gptrain {

/// Sizes in a config.json are at most this; make_plan sets the bounds that hold for runs.
constexpr std::int64_t largest_hf_size = std::int64_t{1} << 24;

/// Members of config.json, where null is the same as absent.
class HfMembers {
public:
    HfMembers(const Json& json, const std::string& source) : json_(json), source_(source) {
        if (!json.is_object()) fail(ExitCode::bad_input, source, ": must be a JSON object");
    }

    [[noreturn]] void refuse(std::string_view key, const auto&... why) const {
        std::string value = to_line(json_.at(std::string(key)));
        if (value.size() > 200) value = value.substr(0, 200) + "...";
        fail(ExitCode::bad_input, source_, ": '", key, "' is ", value, "; ", why...);
    }

    bool has(std::string_view key) const {
        const auto found = json_.find(std::string(key));
        return found != json_.end() && !found->is_null();
    }
    std::int64_t size(std::string_view key) const {
        const std::int64_t value = JsonReader(json_, source_).integer(key);
        if (value < 1 || value > largest_hf_size)
            refuse(key, "it must be between 1 and ", largest_hf_size);
        return value;
    }
    std::int64_t size(std::string_view key, std::int64_t otherwise) const {
        return has(key) ? size(key) : otherwise;
    }
    double number(std::string_view key, double otherwise) const {
        if (!has(key)) return otherwise;
        const double value = JsonReader(json_, source_).number(key);
        if (!(value > 0)) refuse(key, "it must be above 0");
        return value;
    }
    double number_from_0(std::string_view key, double otherwise) const {
        const double value = has(key) ? JsonReader(json_, source_).number(key) : otherwise;
        if (!(value >= 0)) refuse(key, "it must be at least 0");
        return value;
    }
    bool flag(std::string_view key, bool otherwise) const {
        return has(key) ? JsonReader(json_, source_).boolean(key) : otherwise;
    }
    /// Refuses every value except `only`.
    void require(std::string_view key, const Json& only, const Json& otherwise) const {
        const Json& value = has(key) ? json_.at(std::string(key)) : otherwise;
        if (value == only) return;
        if (has(key)) refuse(key, "gptrain supports only ", to_line(only));
        fail(ExitCode::bad_input, source_, ": key '", key, "' is missing, which means ",
             to_line(otherwise), "; gptrain supports only ", to_line(only));
    }
    /// Refuses every value.
    void require_absent(std::string_view key, std::string_view what) const {
        if (has(key)) refuse(key, "gptrain has no ", what);
    }
    std::string word(std::string_view key) const { return JsonReader(json_, source_).string(key); }
    const Json& json() const { return json_; }
    const std::string& source() const { return source_; }

private:
    const Json& json_;
    std::string source_;
};

}  // namespace gptrain
