// The rows of a Parquet file as records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "parquet/parquet_file.h"
#include "parquet/parquet_rows.h"
#include "text/record_source.h"

namespace gptrain {

/// The groups that the file has of these.
ParquetGroups groups_in(const ParquetFile& file, ParquetGroups groups);

class ParquetRecords final : public RecordSource {
public:
    /// `key`: the column of texts; a row without a text is a record of kind `row`, with a null
    /// under this key. Empty: whole rows. `groups` are cut to those of the file. Errors
    /// (bad_input): those of ParquetFile and ParquetRows.
    ParquetRecords(std::shared_ptr<const ParquetFile> file, const std::string& key,
                   std::int64_t max_record_bytes, ParquetGroups groups);

    bool next(Record& record) override;
    /// Bytes of texts, or of rows as JSON.
    std::int64_t position() const override { return position_; }

private:
    void take_text(Record& record);

    std::shared_ptr<const ParquetFile> file_;
    std::string key_;
    std::size_t max_bytes_;
    ParquetRows rows_;
    std::int64_t position_ = 0;
};

}  // namespace gptrain
