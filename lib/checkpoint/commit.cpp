#include "checkpoint/commit.h"

#include "base/crc32c.h"
#include "base/temporary_file.h"
#include "checkpoint/folder.h"
#include "checkpoint/verify.h"

namespace gptrain {
namespace {

/// A new checkpoint must read back before older ones are removed.
void check_written(const std::filesystem::path& folder) {
    try {
        verify_checkpoint(folder, VerifyDepth::structure);
    } catch (const Error& error) {
        fail(ExitCode::io, "the checkpoint just written does not read back: ", error.what());
    }
}

}  // namespace

void write_whole(File file, std::string_view contents) {
    file.write_at(0, std::as_bytes(std::span(contents)));
    file.sync();
    file.close();
}

std::int64_t commit_checkpoint(const CheckpointMeta& meta, const std::filesystem::path& temporary,
                               ShardRecords shards, std::span<const WholeFile> whole_files,
                               const std::filesystem::path& final_path) {
    Manifest manifest{meta, std::move(shards.files), std::move(shards.tensors)};
    for (const auto& [name, contents] : whole_files) {
        manifest.files.push_back(
            {std::string(name), std::ssize(contents), crc32c(contents.data(), contents.size())});
    }
    write_file_durably(temporary / "manifest.json", to_text(manifest));
    commit_folder(temporary, final_path);
    check_written(final_path);
    return manifest.bytes();
}

std::int64_t commit_checkpoint(const CheckpointMeta& meta, const std::filesystem::path& temporary,
                               ShardRecords shards, std::span<const WholeFile> whole_files,
                               const Retention& retention) {
    const std::int64_t bytes = commit_checkpoint(meta, temporary, std::move(shards), whole_files,
                                                 retention.folder / checkpoint_name(meta.step));
    remove_old_checkpoints(retention.folder, meta.step, retention.keep_last, retention.keep_every);
    return bytes;
}

}  // namespace gptrain
