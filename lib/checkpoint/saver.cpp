#include "checkpoint/saver.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/records.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/verify_together.h"

namespace gptrain {
CheckpointSaver::CheckpointSaver(Backend& backend, Arena& snapshot, const MpiSession& ranks,
                                 SaverOptions options)
    : backend_(backend), snapshot_arena_(snapshot), ranks_(ranks), options_(std::move(options)) {
    GPTRAIN_CHECK(options_.retention.keep_last >= 2, "keep_last must be at least 2");
    ranks_.run_on_first([&] { remove_left(); });
}

CheckpointSaver::~CheckpointSaver() {
    if (ranks_.size() > 1) return;
    try {
        wait();
    } catch (const std::exception& error) {
        warn(error.what());
    }
}

void CheckpointSaver::prepare(const StateSource& source) {
    if (!layout_) plan_files(owned_state(source));
    const std::int64_t bytes = ranks_.sum(layout_->hdf5.bytes);
    ranks_.run_on_first([&] { try_folder(bytes); });
}

void CheckpointSaver::try_folder(std::int64_t bytes) const {
    const std::filesystem::path& folder = options_.retention.folder;
    const TemporaryFolder trial(folder, checkpoint_name(0));  // removed later if the run is killed
    write_whole(File(trial.path() / "file", File::Mode::create), "trial");
    std::error_code unknown;
    const std::filesystem::space_info disk = std::filesystem::space(folder, unknown);
    if (unknown || disk.available >= static_cast<std::uintmax_t>(bytes)) return;
    warn(folder.string(), ": a checkpoint takes ", human_bytes(bytes), ", but the disk has only ",
         human_bytes(static_cast<std::int64_t>(disk.available)),
         " left; make room before the first one is due");
}

void CheckpointSaver::save(const CheckpointMeta& meta, const StateSource& source) {
    finish_save();
    report_failure();
    try {
        begin(meta, source);
    } catch (const CommonError& failure) {
        abandon_save(failure);
    }
    if (!options_.async) finish_save();
}

void CheckpointSaver::continue_from(std::int64_t step, const std::filesystem::path& folder) {
    finish_save();
    ranks_.run_on_first([&] {
        for (const CheckpointFolder& checkpoint : list_checkpoints(options_.retention.folder)) {
            std::error_code ignored;
            if (checkpoint.step > step) verified_.reject(checkpoint);
            if (std::filesystem::equivalent(checkpoint.path, folder, ignored))
                verified_.add(checkpoint);
        }
    });
}

void CheckpointSaver::poll() {
    report_failure();
    if (phase_ == Phase::idle) return;
    const bool busy =
        work_.valid() && work_.wait_for(std::chrono::seconds::zero()) != std::future_status::ready;
    if (ranks_.max(busy ? 1 : 0) == 0) next_phase();
}

void CheckpointSaver::finish_save() {
    while (phase_ != Phase::idle)
        next_phase();
}

void CheckpointSaver::wait() {
    finish_save();
    if (unreported_) throw *std::exchange(unreported_, std::nullopt);
}

void CheckpointSaver::discard() {
    finish_save();
    unreported_.reset();
}

void CheckpointSaver::begin(const CheckpointMeta& meta, const StateSource& source) {
    const auto start_time = std::chrono::steady_clock::now();
    const std::vector<HeldState> owned = owned_state(source);
    if (!layout_) plan_files(owned);
    if (!std::exchange(older_verified_, true)) verify_older();
    GPTRAIN_CHECK(owned.size() == layout_->tensors.size(), "the state has changed its shards");
    ranks_.run_on_first([&] {
        // An earlier save may have failed to remove its files on a failing disk.
        remove_left();
        temporary_.emplace(options_.retention.folder, checkpoint_name(meta.step));
    });
    save_ = {.meta = meta,
             .folder = ranks_.broadcast(ranks_.rank() == 0 ? temporary_->path().string() : ""),
             .start = start_time};
    if (options_.async) {
        if (snapshot_.empty()) snapshot_ = allocate_snapshot(snapshot_arena_, owned);
        take_snapshot(backend_, snapshot_, owned);
    }
    save_.seconds = seconds_since(start_time);
    start(Phase::writing,
          [this, blocks = options_.async ? blocks_of(snapshot_) : blocks_of(backend_, owned)] {
              return write_files(blocks);
          });
}

void CheckpointSaver::plan_files(std::span<const HeldState> owned) {
    const std::filesystem::path& parent = options_.retention.folder;
    ranks_.run_on_first([&] {
        create_folders(parent);
        sync_folder(std::filesystem::absolute(parent).parent_path());
    });
    ShardLayout layout;
    std::string entries;
    ranks_.run_on_all([&] {
        if (!owned.empty()) layout = plan_shard_file(parent, ranks_.rank(), owned);
        entries = to_message(index_of(layout.tensors));
    });
    // No rank ever holds what grows with the ranks times the tensors of each.
    entries = ranks_.reduce(std::move(entries), [](const auto& lower, const auto& higher) {
        return to_message(merge_entries(entries_from_message(lower), entries_from_message(higher)));
    });
    ranks_.run_on_first([&] { entries_ = entries_from_message(entries); });
    plan_view(layout.tensors);
    layout_ = std::move(layout);
}

void CheckpointSaver::plan_view(const std::vector<TensorRecord>& own) {
    const std::int64_t parts = ranks_.sum(std::ssize(own));
    if (parts > options_.max_viewed_parts) {
        print("checkpoints have no model.h5, because the ranks hold ", grouped(parts),
              " parts of tensors; gptrain inspect CHECKPOINT --view makes it");
        return;
    }
    const std::vector<std::string> of_all = ranks_.gather(to_message(ShardRecords{{}, own}));
    ranks_.run_on_first([&] { viewed_ = merged(of_all).tensors; });
}

void CheckpointSaver::verify_older() {
    const std::int64_t most = options_.retention.keep_last;
    if (most == Retention::all) return;
    std::vector<CheckpointFolder> older;
    ranks_.run_on_first([&] {
        older = list_checkpoints(options_.retention.folder);
        std::erase_if(older, [this](const auto& one) { return verified_.is_rejected(one); });
        older.resize(static_cast<std::size_t>(std::min(std::ssize(older), most)));
        std::erase_if(older, [this](const auto& one) { return verified_.contains(one); });
    });
    older.resize(static_cast<std::size_t>(ranks_.max(std::ssize(older))));
    for (const CheckpointFolder& checkpoint : older) {
        try {
            verify_together(checkpoint.path, ranks_);
            if (ranks_.rank() == 0) verified_.add(checkpoint);
        } catch (const CommonError&) {
            // A checkpoint that does not verify does not count as one that is kept.
        }
    }
}

void CheckpointSaver::start(Phase phase, std::function<std::string()> work) {
    // Deferred work runs on the thread that waits for it, which is this one.
    const auto when = options_.async ? std::launch::async : std::launch::deferred;
    work_ = std::async(when, [this, work = std::move(work)] {
        const auto start_time = std::chrono::steady_clock::now();
        std::string result = work();
        work_seconds_ = seconds_since(start_time);
        return result;
    });
    phase_ = phase;
}

void CheckpointSaver::count_work() {
    const auto own = std::llround(1e6 * std::exchange(work_seconds_, 0));
    save_.seconds += 1e-6 * static_cast<double>(ranks_.max(own));
}

void CheckpointSaver::next_phase() {
    try {
        std::string result;
        ranks_.run_on_all([&] {
            if (work_.valid()) result = work_.get();
        });
        count_work();
        if (phase_ == Phase::writing) {
            phase_ = Phase::committing;
            const std::vector<std::string> written = ranks_.gather(result);
            if (ranks_.rank() == 0) {
                if (options_.record_time) options_.record_time(save_.meta, save_.seconds);
                start(Phase::committing, [this, written] { return commit(written); });
            }
            return;
        }
        if (ranks_.rank() == 0) {
            print(result);
            if (options_.committed) options_.committed(final_path());
        }
    } catch (const CommonError& failure) {
        return abandon_save(failure);
    }
    phase_ = Phase::idle;
    temporary_.reset();
    failures_ = 0;
    longest_save_ = std::max(longest_save_, save_.seconds);
}

std::string CheckpointSaver::write_files(const BlockSource& blocks) {
    const std::filesystem::path folder = save_.folder;
    make_model_index();
    // Reserve the space of all files before writing any data.
    const std::vector<WholeFile> own =
        ranks_.rank() == 0 ? whole_files() : std::vector<WholeFile>();
    std::vector<File> reserved;
    for (const auto& [name, contents] : own)
        reserved.push_back(create_reserved(folder / name, std::ssize(contents)));
    ShardRecords records;
    if (!layout_->tensors.empty()) {
        File shard = create_reserved(folder / layout_->file, layout_->hdf5.bytes);
        records.files = write_shard(std::move(shard), *layout_, blocks);
    }
    for (std::size_t i = 0; i < own.size(); ++i)
        write_whole(std::move(reserved[i]), own[i].contents);
    return to_message(records);
}

void CheckpointSaver::make_model_index() {
    if (viewed_.empty()) return;
    const std::filesystem::path folder = save_.folder;
    model_index_ = virtual_index(folder / model_index_name, viewed_, options_.model);
    viewed_.clear();
}

std::vector<WholeFile> CheckpointSaver::whole_files() const {
    std::vector<WholeFile> files;
    if (!model_index_.empty()) files.push_back({model_index_name, model_index_});
    files.insert(files.end(), options_.files.begin(), options_.files.end());
    return files;
}

std::string CheckpointSaver::commit(const std::vector<std::string>& written) {
    const std::filesystem::path path = final_path();
    const std::int64_t bytes =
        commit_checkpoint(save_.meta, save_.folder, {merged(written).files, entries_},
                          whole_files(), path, options_.may_write);
    verified_.add({save_.meta.step, path});
    remove_old_checkpoints(options_.retention, save_.meta.step, verified_, options_.may_write);
    return text("saved ", path.string(), ": ", human_bytes(bytes), " in ",
                fixed(seconds_since(save_.start), 1), " s");
}

void CheckpointSaver::abandon_save(const CommonError& failure) {
    phase_ = Phase::idle;
    temporary_.reset();
    if (failure.code() != ExitCode::io) throw failure;
    unreported_ = failure;
    ++failures_;
    if (ranks_.rank() == 0 && options_.failed) options_.failed(failure.what());
}

void CheckpointSaver::report_failure() {
    if (!unreported_) return;
    const CommonError failure = *std::exchange(unreported_, std::nullopt);
    if (failures_ >= max_failures) throw failure;
    if (ranks_.rank() != 0) return;
    warn(failure.what(), "; training continues; the next checkpoint will be saved when it is due");
}

}  // namespace gptrain
