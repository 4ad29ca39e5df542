#include "parquet/parquet_column.h"

#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "codec/crc32.h"

namespace gptrain {
namespace {

/// The codecs of Parquet, by number.
BlockCodec codec_of(std::int64_t number) {
    switch (number) {
        case 0: return BlockCodec::none;
        case 1: return BlockCodec::snappy;
        case 2: return BlockCodec::gzip;
        case 5: return BlockCodec::hadoop_lz4;
        case 6: return BlockCodec::zstd;
        case 7: return BlockCodec::lz4;
        default: break;
    }
    const std::string name = number == 3   ? "LZO"
                             : number == 4 ? "Brotli"
                                           : text("a codec of number ", number);
    fail(ExitCode::bad_input, "is compressed with ", name,
         ", which is not read; write the file with zstd or Snappy");
}

}  // namespace

ParquetColumn::ParquetColumn(const ParquetColumnSource& source) : source_(source) {
    const ParquetColumnChunk& chunk = source.group.columns[source.leaf.first_leaf];
    if (!source.leaf.unread.empty()) refuse(source.leaf.unread);
    if (!chunk.unread.empty()) refuse(chunk.unread);
    try {
        codec_ = codec_of(chunk.codec);
    } catch (const Error& error) {
        refuse(error.what());
    }
    rest_ = source.file.subspan(static_cast<std::size_t>(chunk.begin),
                                static_cast<std::size_t>(chunk.bytes));
    values_left_ = chunk.values;
    load();
}

void ParquetColumn::refuse(std::string_view why) const {
    std::string place;
    if (page_ >= 0) append(place, text(", page ", page_));
    if (row_ >= 0) append(place, text(", row ", source_.group.first_row + row_));
    fail(ExitCode::bad_input, source_.path.string(), ": row group ", source_.group_index,
         ", column ", source_.leaf.path, place, ": ", why);
}

ParquetValue ParquetColumn::take() {
    try {
        return values_->next();
    } catch (const Error& error) {
        refuse(error.what());
    }
}

void ParquetColumn::advance() {
    load();
}

void ParquetColumn::load() {
    try {
        while (entries_left_ == 0) {
            if (values_) values_->finish();
            if (!begin_page()) {
                ended_ = true;
                repetition_ = definition_ = 0;
                return;
            }
        }
        --entries_left_;
        repetition_ = level(repetitions_, source_.leaf.repeats, "repetition");
        definition_ = level(definitions_, source_.leaf.definition, "definition");
    } catch (const Error& error) {
        refuse(error.what());
    }
    if (repetition_ == 0) ++row_;
}

int ParquetColumn::level(HybridDecoder& levels, int most, std::string_view name) {
    const auto level = static_cast<int>(levels.next());
    if (level > most)
        fail(ExitCode::bad_input, "a ", name, " level of ", level, ", but at most ", most);
    return level;
}

/// Reads up to and including the next page of data; false if there are no more values.
bool ParquetColumn::begin_page() {
    values_.reset();
    while (values_left_ > 0) {
        if (rest_.empty())
            fail(ExitCode::bad_input, "its pages lack ", values_left_, " values of its metadata");
        const ParquetPageHeader header = read_parquet_page_header(rest_);
        ++page_;
        const auto packed =
            rest_.subspan(header.header_bytes, static_cast<std::size_t>(header.packed_bytes));
        rest_ = rest_.subspan(header.header_bytes + packed.size());
        if (header.crc && *header.crc != crc32_of(packed))
            fail(ExitCode::bad_input, "the checksum of the page is wrong; copy the file again");
        if (header.type == ParquetPageType::index) continue;
        if (header.type == ParquetPageType::dictionary) {
            read_dictionary(header, packed);
            continue;
        }
        if (header.values > values_left_)
            fail(ExitCode::bad_input, "its pages have more values than its metadata");
        values_left_ -= header.values;
        entries_left_ = header.values;
        read_page(header, packed);
        return true;
    }
    return false;
}

void ParquetColumn::read_dictionary(const ParquetPageHeader& header,
                                    std::span<const std::byte> packed) {
    if (dictionary_) fail(ExitCode::bad_input, "it has a second dictionary");
    if (header.encoding != ParquetEncoding::plain &&
        header.encoding != ParquetEncoding::plain_dictionary)
        fail(ExitCode::bad_input, "its dictionary has encoding ",
             static_cast<std::int64_t>(header.encoding), " of Parquet, which is not read");
    const auto bytes = unpack(packed, header.unpacked_bytes, true, dictionary_bytes_);
    dictionary_.emplace(*source_.leaf.type, bytes, header.values);
}

std::span<const std::byte> ParquetColumn::unpack(std::span<const std::byte> packed,
                                                 std::int64_t bytes, bool is_packed,
                                                 std::unique_ptr<std::byte[]>& buffer) {
    const auto size = static_cast<std::size_t>(bytes);
    const BlockCodec codec = is_packed ? codec_ : BlockCodec::none;
    if (codec == BlockCodec::none && packed.size() == size) return packed;
    // Not cleared: memory that a false size asks for is never touched. A byte more, for its
    // address.
    buffer = std::make_unique_for_overwrite<std::byte[]>(size + 1);
    const std::span<std::byte> out(buffer.get(), size);
    decompressor_.unpack(codec, packed, out);
    return out;
}

void ParquetColumn::read_page(const ParquetPageHeader& header, std::span<const std::byte> packed) {
    std::span<const std::byte> values;
    if (header.type == ParquetPageType::data) {
        values = unpack(packed, header.unpacked_bytes, true, page_bytes_);
        read_levels_1(header, values);
    } else {
        const std::int64_t levels = header.repetition_bytes + header.definition_bytes;
        read_levels_2(header, packed);
        values = unpack(packed.subspan(static_cast<std::size_t>(levels)),
                        header.unpacked_bytes - levels, header.is_packed, page_bytes_);
    }
    values_ = parquet_values(*source_.leaf.type, header.encoding, values,
                             dictionary_ ? &*dictionary_ : nullptr);
}

/// Takes the levels of version 1 off the page: their size, then as many bytes.
void ParquetColumn::read_levels_1(const ParquetPageHeader& header,
                                  std::span<const std::byte>& rest) {
    const auto take = [&](ParquetEncoding encoding, int most) {
        if (most == 0) return HybridDecoder({}, 0);
        if (encoding != ParquetEncoding::rle)
            fail(ExitCode::bad_input, "levels in encoding ", static_cast<std::int64_t>(encoding),
                 " of Parquet, which is not read");
        if (rest.size() < 4 || value_at<std::uint32_t>(rest, 0) > rest.size() - 4)
            fail(ExitCode::bad_input, "its levels are longer than the page");
        const std::size_t size = value_at<std::uint32_t>(rest, 0);
        const auto levels = rest.subspan(4, size);
        rest = rest.subspan(4 + size);
        return HybridDecoder(levels, bits_for(most));
    };
    repetitions_ = take(header.repetitions, source_.leaf.repeats);
    definitions_ = take(header.definitions, source_.leaf.definition);
}

void ParquetColumn::read_levels_2(const ParquetPageHeader& header,
                                  std::span<const std::byte> levels) {
    const auto first = static_cast<std::size_t>(header.repetition_bytes);
    const auto second = static_cast<std::size_t>(header.definition_bytes);
    repetitions_ = HybridDecoder(levels.first(first), bits_for(source_.leaf.repeats));
    definitions_ = HybridDecoder(levels.subspan(first, second), bits_for(source_.leaf.definition));
}

}  // namespace gptrain
