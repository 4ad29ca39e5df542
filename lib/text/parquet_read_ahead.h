// The rows of a Parquet file, decoded on several threads.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "parquet/parquet_file.h"
#include "parquet/parquet_rows.h"
#include "text/record_source.h"

namespace gptrain {

/// Reads row groups at the same time, each on a thread, and gives their records in the order of the
/// file, as ParquetRecords does. A thread waits once it is a few MiB ahead, so memory is bounded,
/// and row groups above that gain little. An Error comes in its place of the order.
class ParquetReadAhead final : public RecordSource {
public:
    /// As ParquetRecords. `readers`: the most threads.
    ParquetReadAhead(std::shared_ptr<const ParquetFile> file, const std::string& key,
                     std::int64_t max_record_bytes, ParquetGroups groups, std::size_t readers);
    ~ParquetReadAhead() override;

    bool next(Record& record) override;
    std::int64_t position() const override { return position_; }

private:
    class Group;

    void start_groups();

    std::shared_ptr<const ParquetFile> file_;
    std::string key_;
    std::int64_t max_record_bytes_;
    ParquetGroups groups_;  ///< that have not begun
    std::size_t readers_;
    std::deque<std::unique_ptr<Group>> reading_;
    std::int64_t position_ = 0;
};

}  // namespace gptrain
