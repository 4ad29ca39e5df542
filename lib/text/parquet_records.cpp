#include "text/parquet_records.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace gptrain {

ParquetGroups groups_in(const ParquetFile& file, ParquetGroups groups) {
    groups.end = std::min(groups.end, file.metadata().groups.size());
    groups.begin = std::min(groups.begin, groups.end);
    return groups;
}

ParquetRecords::ParquetRecords(std::shared_ptr<const ParquetFile> file, const std::string& key,
                               std::int64_t max_record_bytes, ParquetGroups groups)
    : file_(std::move(file)),
      key_(key),
      max_bytes_(static_cast<std::size_t>(max_record_bytes)),
      rows_(*file_, key.empty() ? nullptr : &file_->text_column(key), groups_in(*file_, groups)) {}

bool ParquetRecords::next(Record& record) {
    if (!rows_.next()) return false;
    record = {};
    record.line = rows_.row();
    if (key_.empty()) {
        record.kind = Record::Kind::row;
        rows_.append_json(record.bytes, max_bytes_);
    } else {
        take_text(record);
    }
    position_ += std::ssize(record.bytes);
    record.too_long = record.bytes.size() > max_bytes_;
    if (record.too_long) record.bytes.clear();
    return true;
}

void ParquetRecords::take_text(Record& record) {
    const auto words = rows_.take_text();
    record.kind = words ? Record::Kind::row_text : Record::Kind::row;
    record.bytes = words ? std::string(*words) : to_line({{key_, nullptr}});
}

}  // namespace gptrain
