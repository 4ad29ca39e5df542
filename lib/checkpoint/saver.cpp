#include "checkpoint/saver.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/crc32c.h"
#include "base/log.h"
#include "checkpoint/folder.h"
#include "checkpoint/verify.h"

namespace gptrain {
namespace {

constexpr std::string_view index_name = "model.h5";

std::span<std::byte> host_bytes(const Tensor& tensor) {
    return {tensor.data(), static_cast<std::size_t>(tensor.bytes())};
}

/// Reads tensors in blocks through one block of memory.
BlockSource stream_from(Backend& backend, std::vector<OwnedState> owned) {
    auto buffer = std::make_shared<std::vector<std::byte>>(checkpoint_block_bytes);
    return [&backend, owned = std::move(owned), buffer](std::size_t index, std::int64_t offset,
                                                        std::int64_t bytes) {
        const std::int64_t width = size_of(DType::f32);
        const auto block = std::span(*buffer).first(static_cast<std::size_t>(bytes));
        backend.download(block, owned[index].values.slice(0, offset / width, bytes / width));
        return std::span<const std::byte>(block);
    };
}

BlockSource read_from(const std::vector<Tensor>& snapshot) {
    return [&snapshot](std::size_t index, std::int64_t offset, std::int64_t bytes) {
        return std::span<const std::byte>(host_bytes(snapshot[index]))
            .subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
    };
}

void write_index(File file, const std::string& contents) {
    file.write_at(0, std::as_bytes(std::span(contents)));
    file.sync();
    file.close();
}

/// What was committed must read back before anything older may go.
void check_written(const std::filesystem::path& folder) {
    try {
        verify_checkpoint(folder, VerifyDepth::structure);
    } catch (const Error& error) {
        fail(ExitCode::io, "the checkpoint just written does not read back: ", error.what());
    }
}

/// A folder that goes with its contents unless it was given another name.
class TemporaryFolder {
public:
    TemporaryFolder(const std::filesystem::path& parent, const std::string& name)
        : path_(temporary_folder(parent, name)) {
        create_folders(path_);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
        if (error) warn(path_.string(), ": cannot be removed: ", error.message());
    }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

}  // namespace

CheckpointSaver::CheckpointSaver(Backend& backend, Arena& snapshot, SaverOptions options)
    : backend_(backend), snapshot_arena_(snapshot), options_(std::move(options)) {
    GPTRAIN_CHECK(options_.keep_last >= 2, "the newest checkpoint alone is no safe place");
    remove_leftovers(options_.folder);
}

CheckpointSaver::~CheckpointSaver() {
    try {
        wait();
    } catch (const std::exception& error) {
        warn(error.what());
    }
}

void CheckpointSaver::save(const CheckpointMeta& meta, const StateSource& source) {
    wait();
    std::vector<OwnedState> owned = owned_state(source);
    if (!layout_) lay_out(meta.step, owned);
    GPTRAIN_CHECK(owned.size() == layout_->tensors.size(), "the state has changed its shards");
    if (!options_.async) {
        write(meta, stream_from(backend_, std::move(owned)));
        return;
    }
    if (snapshot_.empty()) snapshot_ = allocate_snapshot(snapshot_arena_, source);
    for (std::size_t i = 0; i < owned.size(); ++i) {
        backend_.download(host_bytes(snapshot_[i]), owned[i].values);
    }
    writing_ = std::async(std::launch::async, [this, meta] { write(meta, read_from(snapshot_)); });
}

void CheckpointSaver::lay_out(std::int64_t step, std::span<const OwnedState> owned) {
    create_folders(options_.folder);
    sync_folder(std::filesystem::absolute(options_.folder).parent_path());
    const TemporaryFolder scratch(options_.folder, checkpoint_name(step));
    ShardLayout layout = plan_shard_file(scratch.path(), 0, owned);
    model_index_ = virtual_index(scratch.path() / index_name, merge_tensors(layout.tensors));
    layout_ = std::move(layout);
}

void CheckpointSaver::write(const CheckpointMeta& meta, const BlockSource& blocks) {
    const auto start = std::chrono::steady_clock::now();
    const std::string name = checkpoint_name(meta.step);
    const std::filesystem::path final_path = options_.folder / name;
    const TemporaryFolder temporary(options_.folder, name);

    File shard = create_reserved(temporary.path() / layout_->file, layout_->hdf5.bytes);
    File index = create_reserved(temporary.path() / index_name, std::ssize(model_index_));
    write_index(std::move(index), model_index_);
    Manifest manifest{meta, {file_record(*layout_)}, {}};
    manifest.files.push_back({std::string(index_name), std::ssize(model_index_),
                              crc32c(model_index_.data(), model_index_.size())});
    manifest.tensors = merge_tensors(write_shard_file(std::move(shard), *layout_, blocks));
    write_file_durably(temporary.path() / "manifest.json", to_text(manifest));
    commit_folder(temporary.path(), final_path);
    check_written(final_path);

    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    print("saved ", final_path.string(), ": ", human_bytes(manifest.bytes()), " in ",
          fixed(seconds.count(), 1), " s");
    remove_old_checkpoints(options_.folder, meta.step, options_.keep_last, options_.keep_every);
}

void CheckpointSaver::wait() {
    if (writing_.valid()) writing_.get();
}

}  // namespace gptrain
