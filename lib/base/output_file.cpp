#include "base/output_file.h"

#include <cerrno>
#include <iterator>
#include <optional>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/inputs.h"
#include "base/log.h"
#include "base/temporary_file.h"

namespace gptrain {
namespace {

namespace fs = std::filesystem;

/// The status of what a path leads to; empty if nothing is there yet.
std::optional<struct stat> status_at(const fs::path& path) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) == 0) return status;
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail_errno(errno, path.string());
}

/// The name of the file at the end of all links, even if it does not exist.
fs::path behind_links(fs::path path) {
    constexpr int most_links = 40;  // as the kernel
    std::error_code error;
    for (int i = 0; i < most_links && fs::is_symlink(fs::symlink_status(path, error)); ++i)
        path = folder_of(path) / fs::read_symlink(path, error);
    return path;
}

bool allows_new_files(const fs::path& folder) {
    return ::access(folder.c_str(), W_OK | X_OK) == 0;
}

void refuse_input(const fs::path& path, std::string_view option) {
    if (!is_input(path)) return;
    fail(ExitCode::usage, option, path.string(),
         ": is an input of this command and would be overwritten; choose another name");
}

/// True if stdout was redirected to this file, as with `--output /dev/stdout >FILE`.
bool is_stdouts_file(const struct stat& status) {
    struct stat out = {};
    return ::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == status.st_dev &&
           out.st_ino == status.st_ino;
}

/// Gives the new file the owner and mode of the old one.
bool take_owner_and_mode(const File& file, const struct stat& old) {
    constexpr mode_t permissions = 07777;
    return ::fchown(file.descriptor(), old.st_uid, old.st_gid) == 0 &&
           ::fchmod(file.descriptor(), old.st_mode & permissions) == 0;
}

void finish(File& file, bool durably) {
    if (durably) file.sync();
    file.close();
}

void write_in_place(const fs::path& path, std::string_view bytes, bool durably) {
    File file(path, File::Mode::update);
    file.reserve(std::ssize(bytes));  // a full disk shows before anything is lost
    file.write_at(0, std::as_bytes(std::span(bytes)));
    file.truncate(std::ssize(bytes));
    finish(file, durably);
}

/// False, and nothing has changed, if the new file cannot have the owner and mode of the old one.
bool replace(const fs::path& path, const std::optional<struct stat>& old, std::string_view bytes,
             bool durably) {
    TemporaryFile temporary(temporary_path(path));
    File file(temporary.path(), File::Mode::create);
    if (old && !take_owner_and_mode(file, *old)) return false;
    file.write(bytes);
    finish(file, durably);
    temporary.move_to(path);
    if (durably) sync_folder(folder_of(path));
    return true;
}

void write_plain(const fs::path& path, const std::optional<struct stat>& old,
                 std::string_view bytes, bool durably) {
    if (durably) remove_abandoned_files(path);
    const bool keep = old && (old->st_nlink > 1 || !allows_new_files(folder_of(path)));
    if (keep || !replace(path, old, bytes, durably)) write_in_place(path, bytes, durably);
}

/// `status`: that of the path's target.
void write_anything(const fs::path& path, const std::optional<struct stat>& status,
                    std::string_view bytes, bool durably) {
    if (status && !S_ISREG(status->st_mode)) return File(path, File::Mode::through).write(bytes);
    if (status && is_stdouts_file(*status)) return write_stdout(bytes);
    refuse_input(path, "");
    write_plain(behind_links(path), status, bytes, durably);
}

}  // namespace

bool is_stdout(const fs::path& path) {
    return path == "-";
}

void refuse_stdout(const fs::path& path, std::string_view option) {
    if (is_stdout(path))
        fail(ExitCode::usage, option,
             " -: cannot go to stdout, because it is read back; give a name");
}

void check_output_file(const fs::path& path, std::string_view option) {
    if (path.empty()) return;
    if (is_stdout(path)) {
        if (stdout_freed()) fail(ExitCode::usage, option, " -: another output goes to stdout");
        return free_stdout();
    }
    const auto status = status_at(path);
    if (status && S_ISDIR(status->st_mode))
        fail(ExitCode::usage, option, ' ', path.string(), ": is a folder; name a file");
    refuse_input(path, text(option, ' '));
    const fs::path folder = folder_of(behind_links(path));
    if (!status)
        require_path(folder, ExitCode::usage, "folder", text(" for ", option, "; create it"));
    if (status && ::access(path.c_str(), W_OK) == 0) return;
    if ((!status || S_ISREG(status->st_mode)) && allows_new_files(folder)) return;
    fail_errno(errno, option, ' ', path.string(), ": cannot be written");
}

fs::path folder_of_output(const fs::path& path) {
    const auto status = is_stdout(path) ? std::nullopt : status_at(path);
    const bool file = !is_stdout(path) && (!status || S_ISREG(status->st_mode));
    return file ? folder_of(behind_links(path)) : ".";
}

void write_output_file(const fs::path& path, std::string_view bytes) {
    if (is_stdout(path)) return write_stdout(bytes);
    write_anything(path, status_at(path), bytes, true);
}

void refresh_output_file(const fs::path& path, std::string_view bytes) {
    const auto status = status_at(path);
    if (status && S_ISFIFO(status->st_mode)) fail(ExitCode::io, path.string(), ": is a FIFO");
    write_anything(path, status, bytes, false);
}

}  // namespace gptrain
