#include "help/option_checks.h"

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace gptrain {

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
    const auto check = [=](const std::string& word) {
        const auto value = parse_int(word);
        if (value && *value >= low && *value <= high) return std::string();
        return text("'", word, "' is not a whole number from ", low, " to ", high);
    };
    return {check, text("INT in [", low, " - ", high, "]")};
}

CLI::Validator number_between(double low, double high) {
    const auto check = [=](const std::string& word) {
        const auto value = parse_double(word);
        if (value && *value >= low && *value <= high) return std::string();
        return text("'", word, "' is not a number from ", low, " to ", high);
    };
    return {check, ""};
}

std::int64_t parse_size(std::string_view option, const std::string& word,
                        std::string_view example) {
    const auto bytes = parse_bytes(word);
    if (!bytes) {
        fail(ExitCode::usage, option, ' ', word,
             ": give a number above 0 with its unit, one of MB, GB, TB, MiB, GiB and TiB, such as ",
             example);
    }
    return *bytes;
}

void check_folder(const std::filesystem::path& path, std::string_view option) {
    require_path(folder_of(path), ExitCode::usage, "folder", text(" for ", option, "; create it"));
}

}  // namespace gptrain
