#include "checkpoint/commit.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "base/temporary_file.h"
#include "checkpoint/folder.h"
#include "checkpoint/verify.h"

namespace gptrain {
namespace {

/// The manifest is what was written, and the files of rank 0 are whole.
void read_back(const std::filesystem::path& folder, const std::string& manifest,
               std::span<const FileRecord> whole_files) {
    if (read_manifest_text(folder) != manifest)
        fail(ExitCode::bad_input, (folder / "manifest.json").string(), ": is damaged");
    for (const FileRecord& file : whole_files)
        verify_whole(folder, file);
}

}  // namespace

std::int64_t commit_checkpoint(const CheckpointMeta& meta, const std::filesystem::path& temporary,
                               WrittenShards shards, std::span<const WholeFile> whole_files,
                               const std::filesystem::path& final_path,
                               const std::function<void()>& may_write) {
    CheckpointIndex index{
        meta, std::move(shards.files), {shards.tensors.begin(), shards.tensors.end()}};
    const std::size_t first_whole = index.files.size();
    for (const auto& [name, contents] : whole_files) {
        index.files.push_back(
            {std::string(name), std::ssize(contents), crc32c(contents.data(), contents.size())});
    }
    const std::string manifest = to_text(index);
    // A larger manifest could not be read.
    if (std::ssize(manifest) > manifest_limit) {
        fail(ExitCode::io, (temporary / "manifest.json").string(), ": has ", manifest.size(),
             " bytes, above the limit of ", manifest_limit);
    }
    write_file_durably(temporary / "manifest.json", manifest);
    as_written(
        [&] { read_back(temporary, manifest, std::span(index.files).subspan(first_whole)); });
    if (may_write) may_write();
    commit_folder(temporary, final_path);
    std::int64_t bytes = 0;
    for (const FileRecord& file : index.files)
        bytes += file.bytes;
    return bytes;
}

}  // namespace gptrain
