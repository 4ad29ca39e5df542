#include "text/parquet_records.h"

#include <algorithm>

#include "base/json.h"

namespace gptrain {
namespace {

ParquetRows rows_of(const ParquetFile& file, const std::string& key, ParquetGroups groups) {
    const std::size_t count = file.metadata().groups.size();
    groups.end = std::min(groups.end, count);
    groups.begin = std::min(groups.begin, groups.end);
    return {file, key.empty() ? nullptr : &file.text_column(key), groups};
}

}  // namespace

ParquetRecords::ParquetRecords(const std::filesystem::path& path, const std::string& key,
                               std::int64_t max_record_bytes, ParquetGroups groups)
    : file_(path),
      key_(key),
      max_bytes_(static_cast<std::size_t>(max_record_bytes)),
      rows_(rows_of(file_, key, groups)) {}

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
