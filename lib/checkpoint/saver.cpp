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

CheckpointSaver::CheckpointSaver(Backend& backend, Arena& snapshot, const MpiSession& ranks,
                                 SaverOptions options)
    : backend_(backend), snapshot_arena_(snapshot), ranks_(ranks), options_(std::move(options)) {
    GPTRAIN_CHECK(options_.keep_last >= 2, "the newest checkpoint alone is no safe place");
    if (ranks_.rank() == 0) remove_leftovers(options_.folder);
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
    if (several_ranks() || !options_.async) {
        const BlockSource blocks = stream_from(backend_, std::move(owned));
        return several_ranks() ? write_together(meta, blocks) : write_alone(meta, blocks);
    }
    if (snapshot_.empty()) snapshot_ = allocate_snapshot(snapshot_arena_, source);
    for (std::size_t i = 0; i < owned.size(); ++i) {
        backend_.download(host_bytes(snapshot_[i]), owned[i].values);
    }
    writing_ =
        std::async(std::launch::async, [this, meta] { write_alone(meta, read_from(snapshot_)); });
}

void CheckpointSaver::lay_out(std::int64_t step, std::span<const OwnedState> owned) {
    ranks_.first_alone([&] {
        create_folders(options_.folder);
        sync_folder(std::filesystem::absolute(options_.folder).parent_path());
    });
    ShardLayout layout;
    std::string records;
    ranks_.together([&] {
        const TemporaryFolder scratch(options_.folder, checkpoint_name(step));
        if (!owned.empty()) layout = plan_shard_file(scratch.path(), ranks_.rank(), owned);
        records = to_message({{}, layout.tensors});
    });
    const std::vector<std::string> of_all = ranks_.exchange(records);
    ranks_.first_alone([&] {
        const TemporaryFolder scratch(options_.folder, checkpoint_name(step));
        model_index_ = virtual_index(scratch.path() / index_name, merged(of_all).tensors);
    });
    layout_ = std::move(layout);
}

ShardRecords CheckpointSaver::write_shard(const std::filesystem::path& folder,
                                          const BlockSource& blocks) const {
    if (layout_->tensors.empty()) return {};
    File shard = create_reserved(folder / layout_->file, layout_->hdf5.bytes);
    return {{file_record(*layout_)}, write_shard_file(std::move(shard), *layout_, blocks)};
}

void CheckpointSaver::commit(const CheckpointMeta& meta, const std::filesystem::path& folder,
                             ShardRecords records,
                             std::chrono::steady_clock::time_point start) const {
    const std::filesystem::path final_path = options_.folder / checkpoint_name(meta.step);
    Manifest manifest{meta, std::move(records.files), std::move(records.tensors)};
    manifest.files.push_back({std::string(index_name), std::ssize(model_index_),
                              crc32c(model_index_.data(), model_index_.size())});
    write_file_durably(folder / "manifest.json", to_text(manifest));
    commit_folder(folder, final_path);
    check_written(final_path);

    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    print("saved ", final_path.string(), ": ", human_bytes(manifest.bytes()), " in ",
          fixed(seconds.count(), 1), " s");
    remove_old_checkpoints(options_.folder, meta.step, options_.keep_last, options_.keep_every);
}

void CheckpointSaver::write_alone(const CheckpointMeta& meta, const BlockSource& blocks) const {
    const auto start = std::chrono::steady_clock::now();
    const TemporaryFolder temporary(options_.folder, checkpoint_name(meta.step));
    // The space of all files is reserved before the first byte of data.
    File index = create_reserved(temporary.path() / index_name, std::ssize(model_index_));
    ShardRecords records = write_shard(temporary.path(), blocks);
    write_index(std::move(index), model_index_);
    commit(meta, temporary.path(), std::move(records), start);
}

void CheckpointSaver::write_together(const CheckpointMeta& meta, const BlockSource& blocks) const {
    const auto start = std::chrono::steady_clock::now();
    std::optional<TemporaryFolder> temporary;
    std::string folder;
    ranks_.first_alone([&] {
        temporary.emplace(options_.folder, checkpoint_name(meta.step));
        folder = temporary->path().string();
        write_index(create_reserved(temporary->path() / index_name, std::ssize(model_index_)),
                    model_index_);
    });
    folder = ranks_.exchange(folder).front();
    std::string records;
    ranks_.together([&] { records = to_message(write_shard(folder, blocks)); });
    const std::vector<std::string> of_all = ranks_.exchange(records);
    ranks_.first_alone([&] { commit(meta, folder, merged(of_all), start); });
}

void CheckpointSaver::wait() {
    if (writing_.valid()) writing_.get();
}

}  // namespace gptrain
