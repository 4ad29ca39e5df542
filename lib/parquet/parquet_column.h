// The values of a leaf in a row group, one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "codec/block_decompressor.h"
#include "parquet/hybrid_decoder.h"
#include "parquet/parquet_metadata.h"
#include "parquet/parquet_page.h"
#include "parquet/parquet_values.h"

namespace gptrain {

/// The file, row group and leaf of a column. All must outlive its reader.
struct ParquetColumnSource {
    const std::filesystem::path& path;
    std::span<const std::byte> file;
    const ParquetNode& leaf;
    const ParquetRowGroup& group;
    std::size_t group_index = 0;
};

/// Reads a column page by page, so that memory is bounded by its largest page and its dictionary.
/// The reader stands at an entry: a value, a null or an empty list. Errors (bad_input) name file,
/// row group, column, page and row, counted from 0: damaged data, or what is not read.
class ParquetColumn {
public:
    /// Stands at the first entry.
    explicit ParquetColumn(const ParquetColumnSource& source);
    ParquetColumn(const ParquetColumn&) = delete;
    ParquetColumn& operator=(const ParquetColumn&) = delete;

    /// True behind the last entry.
    bool ended() const { return ended_; }
    /// The levels of the entry (ParquetNode); behind the last one both are 0.
    int repetition() const { return repetition_; }
    int definition() const { return definition_; }
    /// True if the entry is a value, which `take` must read.
    bool has_value() const { return !ended_ && definition_ == source_.leaf.definition; }
    /// The value, valid until `advance`. Call it once.
    ParquetValue take();
    /// Moves to the next entry.
    void advance();
    /// An Error about the column at the entry.
    [[noreturn]] void refuse(std::string_view why) const;

private:
    void load();
    bool begin_page();
    void read_page(const ParquetPageHeader& header, std::span<const std::byte> packed);
    void read_dictionary(const ParquetPageHeader& header, std::span<const std::byte> packed);
    std::span<const std::byte> unpack(std::span<const std::byte> packed, std::int64_t bytes,
                                      bool is_packed, std::unique_ptr<std::byte[]>& buffer);
    void read_levels_1(const ParquetPageHeader& header, std::span<const std::byte>& rest);
    void read_levels_2(const ParquetPageHeader& header, std::span<const std::byte> levels);
    int level(HybridDecoder& levels, int most, std::string_view name);

    ParquetColumnSource source_;
    BlockCodec codec_{};
    BlockDecompressor decompressor_;
    std::span<const std::byte> rest_;  ///< of the chunk
    std::int64_t values_left_ = 0;     ///< in pages that follow
    std::int64_t entries_left_ = 0;    ///< in the page, behind the entry
    std::int64_t page_ = -1;
    std::int64_t row_ = -1;  ///< of the entry, in the group
    std::unique_ptr<std::byte[]> dictionary_bytes_;
    std::optional<ParquetDictionary> dictionary_;
    std::unique_ptr<std::byte[]> page_bytes_;
    HybridDecoder repetitions_;
    HybridDecoder definitions_;
    std::unique_ptr<ParquetValues> values_;
    int repetition_ = 0;
    int definition_ = 0;
    bool ended_ = false;
};

}  // namespace gptrain
