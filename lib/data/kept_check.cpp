#include "data/kept_check.h"

#include <optional>
#include <string>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/node_cache.h"
#include "base/text.h"

namespace gptrain {
namespace {

/// A smaller share is read as quickly as what is known of it is found.
constexpr std::int64_t small_share = std::int64_t{1} << 20;
constexpr double moments = 2;  // in seconds

struct FileState {
    std::string text;
    std::int64_t bytes = 0;
    double changed = 0;  ///< unix_seconds
};

std::optional<FileState> state_of(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    const auto time = [](const timespec& at) { return text(at.tv_sec, '.', at.tv_nsec); };
    return FileState{.text = text(" ", status.st_dev, " ", status.st_ino, " ", status.st_size, " ",
                                  time(status.st_mtim), " ", time(status.st_ctim)),
                     .bytes = status.st_size,
                     .changed = static_cast<double>(status.st_ctim.tv_sec) +
                                1e-9 * static_cast<double>(status.st_ctim.tv_nsec)};
}

std::string to_text(const FoundNumbers& numbers) {
    std::string words;
    for (const std::int64_t number : numbers)
        words += text(words.empty() ? "" : " ", number);
    return words;
}

/// Empty if the text is something else.
FoundNumbers numbers_of(std::string_view words) {
    FoundNumbers numbers;
    while (!words.empty()) {
        const std::size_t end = words.find(' ');
        const auto number = parse_int(words.substr(0, end));
        if (!number) return {};
        numbers.push_back(*number);
        words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
    }
    return numbers;
}

}  // namespace

FoundNumbers check_or_recall_share(std::string_view what,
                                   const std::vector<std::filesystem::path>& files, Share share,
                                   const std::function<FoundNumbers()>& check) {
    // Before the check, so that a change during it counts.
    const double now = unix_seconds();
    std::string question = text(what, ", share ", share.index, " of ", share.count);
    std::string state = "1";  // the version of the checks
    std::int64_t bytes = 0;
    bool settled = true;
    for (const std::filesystem::path& path : files) {
        const auto file = state_of(path);
        if (!file) return check();
        question += text(", ", absolute_path(path).string());
        state += file->text;
        bytes += file->bytes;
        settled = settled && file->changed + moments < now;
    }
    if (bytes / share.count < small_share || !settled) return check();
    const NodeCache cache = NodeCache::of_this_user();
    if (const auto kept = cache.find(question, state)) {
        if (FoundNumbers numbers = numbers_of(*kept); !numbers.empty()) return numbers;
    }
    FoundNumbers found = check();
    cache.keep(question, state, to_text(found));
    return found;
}

}  // namespace gptrain
