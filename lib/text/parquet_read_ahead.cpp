#include "text/parquet_read_ahead.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "text/parquet_records.h"

namespace gptrain {

/// One row group and its thread.
class ParquetReadAhead::Group {
public:
    Group(std::shared_ptr<const ParquetFile> file, const std::string& key,
          std::int64_t max_record_bytes, std::size_t index)
        : records_(std::move(file), key, max_record_bytes, {index, index + 1}),
          thread_([this](const std::stop_token& stop) { read(stop); }) {}

    bool next(Record& record) {
        if (at_ == batch_.size() && !next_batch()) return false;
        record = std::move(batch_[at_++]);
        return true;
    }

private:
    using Batch = std::vector<Record>;
    static constexpr std::size_t batch_bytes = std::size_t{256} << 10;
    static constexpr std::size_t most_batches = 16;

    void read(const std::stop_token& stop) {
        std::exception_ptr error;
        try {
            bool more = true;
            while (more) {
                Batch batch;
                std::size_t bytes = 0;
                for (Record record; bytes < batch_bytes && (more = records_.next(record));) {
                    bytes += sizeof record + record.bytes.size();
                    batch.push_back(std::move(record));
                }
                if (!push(std::move(batch), stop)) return;
            }
        } catch (...) {
            error = std::current_exception();
        }
        const std::lock_guard lock(mutex_);
        error_ = error;
        ended_ = true;
        changed_.notify_all();
    }

    /// False if nobody wants more.
    bool push(Batch batch, const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, stop, [&] { return batches_.size() < most_batches; });
        if (stop.stop_requested()) return false;
        batches_.push_back(std::move(batch));
        changed_.notify_all();
        return true;
    }

    /// False behind the last.
    bool next_batch() {
        batch_.clear();
        at_ = 0;
        while (batch_.empty()) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return !batches_.empty() || ended_; });
            if (batches_.empty()) {
                if (error_) std::rethrow_exception(error_);
                return false;
            }
            batch_ = std::move(batches_.front());
            batches_.pop_front();
            changed_.notify_all();
        }
        return true;
    }

    ParquetRecords records_;
    Batch batch_;  ///< being taken, from at_ on
    std::size_t at_ = 0;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<Batch> batches_;
    bool ended_ = false;
    std::exception_ptr error_;
    std::jthread thread_;  ///< last: it stops before what it uses goes
};

ParquetReadAhead::ParquetReadAhead(std::shared_ptr<const ParquetFile> file, const std::string& key,
                                   std::int64_t max_record_bytes, ParquetGroups groups,
                                   std::size_t readers)
    : file_(std::move(file)),
      key_(key),
      max_record_bytes_(max_record_bytes),
      groups_(groups_in(*file_, groups)),
      readers_(readers) {
    if (!key_.empty()) file_->text_column(key_);
}

ParquetReadAhead::~ParquetReadAhead() = default;

void ParquetReadAhead::start_groups() {
    while (reading_.size() < readers_ && groups_.begin < groups_.end) {
        reading_.push_back(std::make_unique<Group>(file_, key_, max_record_bytes_, groups_.begin));
        ++groups_.begin;
    }
}

bool ParquetReadAhead::next(Record& record) {
    for (start_groups(); !reading_.empty(); start_groups()) {
        if (reading_.front()->next(record)) {
            position_ += std::ssize(record.bytes);
            return true;
        }
        reading_.pop_front();
    }
    return false;
}

}  // namespace gptrain
