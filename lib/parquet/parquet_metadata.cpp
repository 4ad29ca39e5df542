#include "parquet/parquet_metadata.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace gptrain {
namespace {

[[noreturn]] void refuse_metadata(const auto&... parts) {
    fail(ExitCode::bad_input, "damaged metadata: ", parts...);
}

/// As in the file.
struct Chunk {
    std::string path;
    std::optional<std::int64_t> type, codec, values, bytes, data, dictionary;
    bool elsewhere = false;
    bool encrypted = false;
};

Chunk read_chunk(ThriftReader& reader, const ThriftField& field) {
    Chunk chunk;
    const auto read_name = [&](const ThriftField& name) {
        chunk.path += text(chunk.path.empty() ? "" : ".", reader.binary(name));
    };
    const auto read_metadata = [&](const ThriftField& member) {
        switch (member.id) {
            case 1: chunk.type = reader.integer(member); break;
            case 3: reader.list(member, read_name); break;
            case 4: chunk.codec = reader.integer(member); break;
            case 5: chunk.values = reader.integer(member); break;
            case 7: chunk.bytes = reader.integer(member); break;
            case 9: chunk.data = reader.integer(member); break;
            case 11: chunk.dictionary = reader.integer(member); break;
            default: reader.skip(member);
        }
    };
    reader.structure(field, [&](const ThriftField& member) {
        switch (member.id) {
            case 1:
                chunk.elsewhere = true;
                reader.skip(member);
                break;
            case 3: reader.structure(member, read_metadata); break;
            case 8:
            case 9:
                chunk.encrypted = true;
                reader.skip(member);
                break;
            default: reader.skip(member);
        }
    });
    return chunk;
}

/// Checks a chunk against the leaf whose values it has.
ParquetColumnChunk checked(const Chunk& chunk, const ParquetNode& leaf, std::int64_t data_bytes) {
    ParquetColumnChunk checked;
    if (chunk.encrypted) checked.unread = "it is encrypted";
    if (chunk.elsewhere) checked.unread = "its data is in another file";
    if (!checked.unread.empty()) return checked;
    if (!chunk.type || !chunk.codec || !chunk.values || !chunk.bytes || !chunk.data)
        refuse_metadata("column ", leaf.path, " lacks a field");
    if (*chunk.type != static_cast<int>(*leaf.type) || chunk.path != leaf.path)
        refuse_metadata("column ", leaf.path, " is another one than in the schema");
    checked.codec = *chunk.codec;
    checked.values = *chunk.values;
    checked.bytes = *chunk.bytes;
    checked.begin = *chunk.data;
    if (chunk.dictionary && *chunk.dictionary > 0)
        checked.begin = std::min(checked.begin, *chunk.dictionary);
    if (checked.values < 0 || checked.bytes < 0 || checked.begin < 0 ||
        checked.begin > data_bytes || checked.bytes > data_bytes - checked.begin)
        refuse_metadata("column ", leaf.path, " lies outside the file");
    return checked;
}

ParquetRowGroup read_group(ThriftReader& reader, const ThriftField& field,
                           const std::vector<const ParquetNode*>& leaves, std::int64_t data_bytes) {
    ParquetRowGroup group;
    const auto read_column = [&](const ThriftField& column) {
        if (group.columns.size() == leaves.size())
            refuse_metadata("a row group has too many columns");
        const ParquetNode& leaf = *leaves[group.columns.size()];
        group.columns.push_back(checked(read_chunk(reader, column), leaf, data_bytes));
    };
    reader.structure(field, [&](const ThriftField& member) {
        switch (member.id) {
            case 1: reader.list(member, read_column); break;
            case 3: group.rows = reader.integer(member); break;
            default: reader.skip(member);
        }
    });
    if (group.columns.size() != leaves.size()) refuse_metadata("a row group lacks columns");
    return group;
}

/// Sets the first rows of the groups.
void count_rows(ParquetMetadata& metadata) {
    std::int64_t rows = 0;
    for (ParquetRowGroup& group : metadata.groups) {
        if (group.rows < 0 || group.rows > metadata.rows - rows)
            refuse_metadata("the rows of its row groups are not those of the file");
        group.first_row = rows;
        rows += group.rows;
    }
    if (rows != metadata.rows)
        refuse_metadata("the rows of its row groups are not those of the file");
}

}  // namespace

ParquetMetadata read_parquet_metadata(std::span<const std::byte> footer, std::int64_t data_bytes) {
    ThriftReader reader(footer);
    ParquetMetadata metadata;
    std::vector<const ParquetNode*> leaves;
    reader.structure([&](const ThriftField& member) {
        switch (member.id) {
            case 2:
                if (!leaves.empty()) refuse_metadata("two schemas");
                metadata.root = read_parquet_schema(reader, member);
                leaves = leaves_of(metadata.root);
                break;
            case 3: metadata.rows = reader.integer(member); break;
            case 4:
                if (leaves.empty()) refuse_metadata("the schema does not come first");
                reader.list(member, [&](const ThriftField& group) {
                    metadata.groups.push_back(read_group(reader, group, leaves, data_bytes));
                });
                break;
            default: reader.skip(member);
        }
    });
    if (leaves.empty()) refuse_metadata("it has no schema");
    count_rows(metadata);
    return metadata;
}

}  // namespace gptrain
