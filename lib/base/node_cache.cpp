#include "base/node_cache.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/temporary_file.h"

namespace gptrain {
namespace {

constexpr std::string_view form = "gptrain node cache 1";
constexpr std::int64_t max_bytes = std::int64_t{1} << 20;
constexpr std::int64_t a_day = std::int64_t{24} * 3600;

/// A file is its form, checksum, time, question, state and answer, with a zero behind each but the
/// last. The checksum is of all behind it.
struct Entry {
    std::int64_t time = 0;  ///< in seconds since 1970
    std::string question;
    std::string state;
    std::string answer;
};

std::int64_t seconds_now() {
    return static_cast<std::int64_t>(unix_seconds());
}

std::string to_text(const Entry& entry) {
    const std::string rest =
        text(entry.time, '\0', entry.question, '\0', entry.state, '\0', entry.answer);
    return text(form, '\0', crc32c(rest.data(), rest.size()), '\0', rest);
}

/// Removes the text before the next zero, and the zero, and returns that text.
std::string next_field(std::string_view& rest) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    std::string field(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return field;
}

/// Nothing if it is damaged.
std::optional<Entry> read_entry(std::string_view file) {
    if (next_field(file) != form) return std::nullopt;
    const std::string checksum = next_field(file);
    if (checksum != text(crc32c(file.data(), file.size()))) return std::nullopt;
    Entry entry;
    const auto time = parse_int(next_field(file));
    if (!time) return std::nullopt;
    entry.time = *time;
    entry.question = next_field(file);
    entry.state = next_field(file);
    entry.answer = next_field(file);
    return entry;
}

/// Why files in the folder may be another user's; empty if they are this user's alone.
std::string find_fault(const std::filesystem::path& folder) {
    struct stat status {};
    if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return "is no folder";
    if (status.st_uid != ::geteuid()) return "belongs to another user";
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "may be written by other users";
    return "";
}

}  // namespace

NodeCache NodeCache::of_this_user() {
    const char* wanted = std::getenv("GPTRAIN_NODE_CACHE");
    if (wanted != nullptr && *wanted != '\0')
        return std::string_view(wanted) == "off" ? NodeCache() : NodeCache(wanted);
    std::error_code none;
    const std::filesystem::path temporary = std::filesystem::temp_directory_path(none);
    return none ? NodeCache() : NodeCache(temporary / text("gptrain-", ::geteuid()));
}

NodeCache::NodeCache(const std::filesystem::path& folder) {
    // A folder that is there already is judged like a new one.
    if (::mkdir(folder.c_str(), S_IRWXU) != 0 && ::access(folder.c_str(), W_OK) != 0) return;
    if (const std::string fault = find_fault(folder); !fault.empty()) {
        warn(folder.string(), ": ", fault, ": nothing is kept there for the next start");
        return;
    }
    folder_ = folder;
}

std::filesystem::path NodeCache::file_of(const std::string& question) const {
    return folder_ / text("found-", name_hash(question));
}

std::optional<std::string> NodeCache::find(const std::string& question,
                                           const std::string& state) const {
    if (folder_.empty()) return std::nullopt;
    const std::filesystem::path path = file_of(question);
    std::error_code missing;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, missing)))
        return std::nullopt;
    std::optional<Entry> entry;
    try {
        entry = read_entry(read_file(path, max_bytes));
    } catch (const Error&) {
        // As good as damaged.
    }
    if (!entry) {
        warn(path.string(), ": is damaged, or not a file of gptrain; ignored");
        return std::nullopt;
    }
    const std::int64_t age = seconds_now() - entry->time;
    const bool holds =
        entry->question == question && entry->state == state && age >= 0 && age < a_day;
    return holds ? std::optional(std::move(entry->answer)) : std::nullopt;
}

void NodeCache::keep(const std::string& question, const std::string& state,
                     const std::string& answer) const {
    if (folder_.empty()) return;
    const std::filesystem::path path = file_of(question);
    try {
        remove_abandoned_files(path);
        std::optional<File> file;
        TemporaryFile temporary([&] {
            const std::filesystem::path name = temporary_path(path);
            file.emplace(name, File::Mode::create);
            return name;
        });
        file->write(to_text({seconds_now(), question, state, answer}));
        file->close();
        temporary.move_to(path);
    } catch (const Error&) {
        // The next start finds it out again.
    }
}

}  // namespace gptrain
