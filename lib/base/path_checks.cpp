#include "base/path_checks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/error.h"

namespace gptrain {
namespace {

constexpr std::string_view name_characters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789abcdefghijklmnopqrstuvwxyz";
// The first word of a pointer, which is a text of some 130 bytes and at most 1,024.
constexpr std::string_view lfs_start = "version https://git-lfs.github.com/spec/";
constexpr off_t most_lfs_bytes = 1024;

bool is_capital(char c) {
    return c == '_' || (c >= 'A' && c <= 'Z');
}

/// "${NAME}" or "$NAME" in a name; variables of the environment have capital letters.
std::string_view variable_in(std::string_view name) {
    for (std::size_t at = name.find('$'); at < name.size(); at = name.find('$', at + 1)) {
        const std::string_view rest = name.substr(at);
        const std::string_view after = rest.substr(1);
        if (after.starts_with('{'))
            return rest.substr(0, std::min(rest.find('}'), rest.size()) + 1);
        if (after.empty() || !is_capital(after.front())) continue;
        return rest.substr(0, std::min(after.find_first_not_of(name_characters), after.size()) + 1);
    }
    return {};
}

}  // namespace

std::string unexpanded_variable(const std::filesystem::path& path) {
    std::filesystem::path before;
    for (const std::filesystem::path& part : path) {
        before /= part;
        const std::string name = part.string();
        const std::string_view variable = variable_in(name);
        std::error_code error;
        if (variable.empty() || std::filesystem::exists(before, error)) continue;
        return std::string(variable);
    }
    return {};
}

void refuse_variables(const std::filesystem::path& path) {
    const std::string variable = unexpanded_variable(path);
    if (variable.empty()) return;
    fail(ExitCode::usage, path.string(), ": ", variable,
         " is not expanded; write the path that it stands for");
}

bool is_lfs_pointer(int descriptor) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    if (status.st_size > most_lfs_bytes) return false;
    std::array<char, lfs_start.size()> start{};
    const ssize_t count = ::pread(descriptor, start.data(), start.size(), 0);
    return count == std::ssize(start) && std::string_view(start.data(), start.size()) == lfs_start;
}

}  // namespace gptrain
