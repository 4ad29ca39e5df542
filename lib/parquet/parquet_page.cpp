#include "parquet/parquet_page.h"

#include <limits>

#include "parquet/thrift_reader.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_page_bytes = std::int64_t{1} << 30;
constexpr std::int64_t max_page_values = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void refuse_header(const auto&... parts) {
    fail(ExitCode::bad_input, "damaged page header: ", parts...);
}

void read_dictionary(ThriftReader& reader, const ThriftField& field, ParquetPageHeader& header) {
    reader.structure(field, [&](const ThriftField& member) {
        switch (member.id) {
            case 1: header.values = reader.integer(member); break;
            case 2: header.encoding = ParquetEncoding{reader.integer(member)}; break;
            default: reader.skip(member);
        }
    });
}

void read_version_1(ThriftReader& reader, const ThriftField& field, ParquetPageHeader& header) {
    reader.structure(field, [&](const ThriftField& member) {
        switch (member.id) {
            case 1: header.values = reader.integer(member); break;
            case 2: header.encoding = ParquetEncoding{reader.integer(member)}; break;
            case 3: header.definitions = ParquetEncoding{reader.integer(member)}; break;
            case 4: header.repetitions = ParquetEncoding{reader.integer(member)}; break;
            default: reader.skip(member);
        }
    });
}

void read_version_2(ThriftReader& reader, const ThriftField& field, ParquetPageHeader& header) {
    reader.structure(field, [&](const ThriftField& member) {
        switch (member.id) {
            case 1: header.values = reader.integer(member); break;
            case 4: header.encoding = ParquetEncoding{reader.integer(member)}; break;
            case 5: header.definition_bytes = reader.integer(member); break;
            case 6: header.repetition_bytes = reader.integer(member); break;
            case 7: header.is_packed = reader.boolean(member); break;
            default: reader.skip(member);
        }
    });
}

/// The field with the details of a type of page; 0: it has none.
std::int64_t details_of(ParquetPageType type) {
    switch (type) {
        case ParquetPageType::data: return 5;
        case ParquetPageType::dictionary: return 7;
        case ParquetPageType::data_v2: return 8;
        case ParquetPageType::index: return 0;
    }
    refuse_header("a page of unknown type");
}

void check(const ParquetPageHeader& header, std::size_t rest) {
    if (header.unpacked_bytes < 0 || header.packed_bytes < 0 || header.values < 0 ||
        header.definition_bytes < 0 || header.repetition_bytes < 0)
        refuse_header("a negative size");
    if (header.values > max_page_values) refuse_header("a page of ", header.values, " values");
    if (header.packed_bytes > static_cast<std::int64_t>(rest))
        refuse_header("the page is longer than its column");
    if (header.unpacked_bytes > max_page_bytes)
        fail(ExitCode::bad_input, "a page of ", header.unpacked_bytes, " bytes; the most is ",
             max_page_bytes, ": write the file with smaller pages");
    if (header.type != ParquetPageType::data_v2) return;
    // Each of the four is below 2^63, and the levels fit the page.
    const std::int64_t least =
        header.packed_bytes < header.unpacked_bytes ? header.packed_bytes : header.unpacked_bytes;
    if (header.definition_bytes > least ||
        header.repetition_bytes > least - header.definition_bytes)
        refuse_header("its levels are longer than the page");
}

}  // namespace

ParquetPageHeader read_parquet_page_header(std::span<const std::byte> bytes) {
    ThriftReader reader(bytes);
    ParquetPageHeader header;
    std::int64_t details = 0;
    std::optional<std::int64_t> type;
    reader.structure([&](const ThriftField& member) {
        switch (member.id) {
            case 1: type = reader.integer(member); break;
            case 2: header.unpacked_bytes = reader.integer(member); break;
            case 3: header.packed_bytes = reader.integer(member); break;
            case 4: header.crc = static_cast<std::uint32_t>(reader.integer(member)); break;
            case 5:
                details = member.id;
                read_version_1(reader, member, header);
                break;
            case 7:
                details = member.id;
                read_dictionary(reader, member, header);
                break;
            case 8:
                details = member.id;
                read_version_2(reader, member, header);
                break;
            default: reader.skip(member);
        }
    });
    if (!type) refuse_header("it lacks its type");
    header.type = ParquetPageType{*type};
    if (const std::int64_t needed = details_of(header.type); needed != 0 && details != needed)
        refuse_header("its details are of another type of page");
    header.header_bytes = reader.position();
    check(header, bytes.size() - header.header_bytes);
    return header;
}

}  // namespace gptrain
