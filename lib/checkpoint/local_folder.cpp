#include "checkpoint/local_folder.h"

#include <algorithm>
#include <cerrno>
#include <iomanip>
#include <random>
#include <sstream>
#include <system_error>
#include <unistd.h>

#include "base/file.h"
#include "base/philox.h"
#include "base/text.h"
#include "checkpoint/folder.h"

namespace gptrain {
namespace {

/// A manifest of a copy names two files and holds the run's state.
constexpr std::int64_t copy_manifest_limit = std::int64_t{16} << 20;

std::string copy_name(int rank, std::string_view ending) {
    const std::string number = text(rank);
    return text("copy-", std::string(number.size() < 5 ? 5 - number.size() : 0, '0'), number,
                ending);
}

/// The folders in a folder; none if it cannot be listed.
std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> folders;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        if (entry->is_directory(error)) folders.push_back(entry->path());
    }
    return folders;
}

bool has_files(const std::filesystem::path& folder, const std::vector<FileRecord>& files) {
    return std::all_of(files.begin(), files.end(), [&](const FileRecord& file) {
        std::error_code missing;
        const auto bytes = std::filesystem::file_size(folder / file.name, missing);
        return !missing && std::cmp_equal(bytes, file.bytes);
    });
}

}  // namespace

LocalFolder local_folder(const std::filesystem::path& dir, const std::filesystem::path& output_dir,
                         const MeshShape& mesh, int node, CopyTier tier) {
    const std::filesystem::path run = absolute_path(output_dir);
    std::ostringstream hash;
    hash.imbue(std::locale::classic());
    hash << std::hex << std::setw(16) << std::setfill('0') << name_hash(run.string());
    return {.run = dir / text(run.filename().string(), "-", hash.str()),
            .mesh = text("dp", mesh.data, "-pp", mesh.pipeline, "-cp", mesh.context, "-tp",
                         mesh.tensor, mesh.expert > 1 ? text("-ep", mesh.expert) : ""),
            .node = node,
            .tier = tier};
}

std::string why_never_writable(const std::filesystem::path& dir) {
    for (std::filesystem::path at = absolute_path(dir);; at = at.parent_path()) {
        std::error_code error;
        const auto status = std::filesystem::status(at, error);
        const bool missing = status.type() == std::filesystem::file_type::not_found;
        const bool known = std::filesystem::exists(status);
        if (!known && !missing && error != std::errc::permission_denied) return "";
        if (missing && std::filesystem::is_symlink(std::filesystem::symlink_status(at, error)))
            return text(at.string(), " is a link to nothing");
        if (!known && at.has_relative_path()) continue;
        if (!std::filesystem::is_directory(status)) return text(at.string(), " is not a folder");
        if (::access(at.c_str(), W_OK | X_OK) == 0 || errno != EACCES) return "";
        return text(at.string(), " cannot be written: ", error_text(errno));
    }
}

std::string copy_file_name(int rank) {
    return copy_name(rank, ".bin");
}
std::string copy_record_name(int rank) {
    return copy_name(rank, ".json");
}
std::string copy_manifest_name(int rank) {
    return copy_name(rank, ".manifest.json");
}

std::string local_save_name(std::int64_t step, const std::string& course) {
    return text(checkpoint_name(step), "-", course);
}

std::optional<std::int64_t> local_save_step(const std::string& name) {
    return checkpoint_step(name.substr(0, name.rfind('-')));
}

bool LocalCourse::includes(const std::string& save) const {
    const std::string course = save.substr(save.rfind('-') + 1);
    // Programs without courses wrote the time here.
    if (id.empty()) return parse_int(course).has_value();
    return course == id || save == from || std::ranges::find(older, save) != older.end();
}

std::string new_course_id() {
    std::random_device random;
    std::ostringstream id;
    id.imbue(std::locale::classic());
    id << 'c' << std::hex << std::setfill('0') << std::setw(8) << random() << std::setw(8)
       << random();
    return id.str();
}

std::string to_text(const LocalCourse& course) {
    std::string lines = text(course.id, " ", course.from, "\n");
    if (course.reached) lines += text("reached ", *course.reached, "\n");
    for (const std::string& save : course.older)
        lines += text("older ", save, "\n");
    return lines;
}

LocalCourse local_course(const std::string& text) {
    std::istringstream lines(text);
    LocalCourse course;
    std::string line;
    std::getline(lines, line);
    std::istringstream(line) >> course.id >> course.from;
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        std::string key;
        std::string value;
        words >> key >> value;
        if (key == "reached") course.reached = parse_int(value);
        if (key == "older") course.older.push_back(value);
    }
    return course;
}

std::vector<LocalCopy> list_copies(const LocalFolder& folder, int ranks) {
    std::vector<LocalCopy> copies;
    for (const std::filesystem::path& save : folders_in(folder.path())) {
        if (!local_save_step(save.filename().string())) continue;
        for (int rank = 0; rank < ranks; ++rank) {
            std::error_code missing;
            if (!std::filesystem::exists(save / copy_manifest_name(rank), missing)) continue;
            try {
                if (has_files(save, read_copy_manifest(save, rank).files))
                    copies.push_back({save.filename().string(), rank});
            } catch (const Error&) {
                // The other node's copy, or the checkpoint on the file server, takes its place.
            }
        }
    }
    return copies;
}

CheckpointIndex read_copy_manifest(const std::filesystem::path& save_folder, int rank) {
    const std::filesystem::path path = save_folder / copy_manifest_name(rank);
    AnyManifest manifest = parse_any_manifest(read_file(path, copy_manifest_limit), path.string());
    auto* index = std::get_if<CheckpointIndex>(&manifest);
    const bool of_rank = index != nullptr && index->files.size() == 2 &&
                         index->files[0].name == copy_file_name(rank) &&
                         index->files[1].name == copy_record_name(rank);
    if (!of_rank || index->meta.step != local_save_step(save_folder.filename().string()))
        fail(ExitCode::bad_input, path.string(), ": is not the manifest of this copy");
    return std::move(*index);
}

std::int64_t newest_save_of_other_meshes(const LocalFolder& folder) {
    std::int64_t newest = 0;
    for (const std::filesystem::path& mesh : folders_in(folder.run)) {
        if (mesh.filename() == folder.mesh) continue;
        for (const std::filesystem::path& save : folders_in(mesh))
            newest = std::max(newest, local_save_step(save.filename().string()).value_or(0));
    }
    return newest;
}

std::int64_t bytes_of_copies(const LocalFolder& folder) {
    std::int64_t bytes = 0;
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator entry(folder.run, error), end;
         !error && entry != end; entry.increment(error)) {
        std::error_code missing;
        const auto size = std::filesystem::file_size(entry->path(), missing);
        if (!missing) bytes += static_cast<std::int64_t>(size);
    }
    return bytes;
}

void remove_other_saves(const LocalFolder& folder, const std::vector<std::string>& saves) {
    for (const std::filesystem::path& mesh : folders_in(folder.run)) {
        for (const std::filesystem::path& other : folders_in(mesh)) {
            const std::string name = other.filename().string();
            const bool kept = std::ranges::find(saves, name) != saves.end();
            if (!kept && local_save_step(name)) remove_or_warn(other);
        }
        std::error_code not_empty;
        std::filesystem::remove(mesh, not_empty);
    }
}

}  // namespace gptrain
