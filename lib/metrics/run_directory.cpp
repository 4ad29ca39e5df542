#include "metrics/run_directory.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/log.h"
#include "base/process.h"
#include "base/temporary_file.h"
#include "base/text.h"

namespace gptrain {
namespace {

/// The beginning of what runs write into their lock.
constexpr std::string_view lock_text = "process ";
/// The number that batch scripts give a start follows it.
constexpr std::string_view start_mark = ", start ";

/// The number of the start makes it differ from the same process number in another container.
std::string this_process() {
    const char* start = std::getenv("GPTRAIN_START");
    return text(lock_text, static_cast<std::int64_t>(::getpid()), " on ", host_name(),
                start == nullptr ? "" : text(start_mark, start));
}

/// JOB.RESTARTS.START, as batch scripts number the starts of a job.
struct StartNumber {
    std::string_view job;
    std::pair<std::int64_t, std::int64_t> number;
};

std::optional<StartNumber> start_number(std::string_view holder) {
    const std::size_t mark = holder.rfind(start_mark);
    if (mark == holder.npos) return std::nullopt;
    const std::string_view words = holder.substr(mark + start_mark.size());
    const std::size_t last = words.rfind('.');
    const std::size_t middle =
        last == words.npos || last == 0 ? words.npos : words.rfind('.', last - 1);
    if (middle == words.npos) return std::nullopt;
    const auto restarts = parse_int(words.substr(middle + 1, last - middle - 1));
    const auto start = parse_int(words.substr(last + 1));
    if (!restarts || !start) return std::nullopt;
    return StartNumber{words.substr(0, middle), {*restarts, *start}};
}

/// True if both are starts of one job, and `one` was made after `other`.
bool is_newer(std::string_view one, std::string_view other) {
    const auto a = start_number(one);
    const auto b = start_number(other);
    return a && b && a->job == b->job && a->number > b->number;
}

/// Creates the folder with those above it. Returns the folders that were missing, the lowest first.
std::vector<std::filesystem::path> create(const std::filesystem::path& folder) {
    std::error_code error;
    if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error)) {
        fail(ExitCode::usage, "output_dir ", folder.string(), ": is a file, not a folder");
    }
    std::vector<std::filesystem::path> missing;
    for (std::filesystem::path at = folder; !at.empty(); at = at.parent_path()) {
        if (std::filesystem::exists(at, error) || error) break;
        missing.push_back(at);
    }
    create_folders(folder);
    return missing;
}

File open_lock(const RunPaths& paths) {
    if (::access(paths.folder.c_str(), W_OK | X_OK) != 0) {
        fail_errno(errno, "output_dir ", paths.folder.string(), ": is not writable");
    }
    return {paths.lock(), File::Mode::update};
}

std::string text_of(File& lock) {
    std::string name(512, '\0');
    name.resize(lock.read(std::as_writable_bytes(std::span(name))));
    return name;
}

std::string holder_named_in(File& lock) {
    const std::string name = text_of(lock);
    return name.empty() ? "another process" : name;
}

/// The lock may be another file under this name, which must not be emptied. It may also be that of
/// a later start of the job, where the file system has no locks or has lost it.
void require_lock_text(File& lock, const std::string& own) {
    const std::string name = text_of(lock);
    if (!name.empty() && !name.starts_with(lock_text))
        fail(ExitCode::usage, lock.path().string(), ": is not the lock of a run; remove it");
    if (is_newer(name, own))
        fail(ExitCode::hang, lock.path().string(), ": has been taken by ", name,
             ", a later start of the job than this one, which ends");
}

bool holds_only(const std::filesystem::path& folder, const std::filesystem::path& file) {
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder, error), end; at != end;
         at.increment(error)) {
        if (error || at->path() != file) return false;
    }
    return !error;
}

/// Returns what is now in the lock.
std::string take_lock(File& lock, const RunPaths& paths, ExitCode if_held) {
    switch (lock.try_lock()) {
        case File::Lock::taken: break;
        case File::Lock::held:
            fail(if_held, "output_dir ", paths.folder.string(), ": in use by ",
                 holder_named_in(lock), "; stop that run or choose another output_dir");
        case File::Lock::unsupported:
            warn(paths.folder.string(),
                 ": this file system does not support locks; make sure that "
                 "no other run writes there");
    }
    std::string own = this_process();
    require_lock_text(lock, own);
    lock.truncate(0);
    lock.write_at(0, std::as_bytes(std::span(own)));
    return own;
}

}  // namespace

RunDirectory::RunDirectory(const std::filesystem::path& folder, ExitCode if_held)
    : paths_{folder},
      new_folders_(create(folder)),
      folder_(paths_.folder, File::Mode::read),
      lock_(open_lock(paths_)),
      holder_(take_lock(lock_, paths_, if_held)) {}

RunDirectory::~RunDirectory() {
    if (new_folders_.empty() || !still_held() || !holds_only(paths_.folder, paths_.lock())) return;
    if (!other_holder().empty()) return;
    std::error_code error;
    std::filesystem::remove(paths_.lock(), error);
    for (const std::filesystem::path& made : new_folders_) {
        std::filesystem::remove(made, error);
        if (error) return;  // it holds something
    }
}

void RunDirectory::write_spec(std::string_view yaml) const {
    require_own();
    remove_abandoned_files(paths_.spec());
    write_file_durably(paths_.spec(), yaml);
}

bool RunDirectory::still_held() const {
    return folder_.is_at(paths_.folder) && lock_.is_at(paths_.lock());
}

std::string RunDirectory::other_holder() const {
    // Opened anew, because a network file system may answer for an open file from its cache.
    std::ifstream lock(paths_.lock());
    if (!lock) return "";
    std::string holder(std::istreambuf_iterator<char>(lock), {});
    if (holder == holder_ || lock.bad()) return "";
    return holder.empty() ? "another process" : holder;
}

void RunDirectory::require_own() const {
    if (!still_held()) return;
    const std::string holder = other_holder();
    if (holder.empty()) return;
    fail(ExitCode::hang, "output_dir ", paths_.folder.string(), ": has been taken over by ", holder,
         "; this start of the run ends without writing there");
}

}  // namespace gptrain
