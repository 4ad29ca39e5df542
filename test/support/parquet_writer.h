// Writes Parquet files for tests, sound or hostile: one column of texts, every field as the test
// sets it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain::test {

/// Values in Thrift's compact protocol.
class ThriftWriter {
public:
    enum Type : int { yes = 1, no = 2, i32 = 5, i64 = 6, binary = 8, list = 9, structure = 12 };

    /// Begins a field; its value follows.
    ThriftWriter& field(int id, Type type) {
        const int step = id - last_.back();
        if (step >= 1 && step <= 15) {
            out_ += static_cast<char>(step << 4 | type);
        } else {
            out_ += static_cast<char>(type);
            zigzag(id);
        }
        last_.back() = id;
        return *this;
    }
    ThriftWriter& integer(int id, std::int64_t value, Type type = i32) {
        field(id, type);
        zigzag(value);
        return *this;
    }
    ThriftWriter& text(int id, std::string_view value) {
        field(id, binary);
        return text(value);
    }
    ThriftWriter& text(std::string_view value) {
        varint(value.size());
        out_ += value;
        return *this;
    }
    ThriftWriter& boolean(int id, bool value) { return field(id, value ? yes : no); }
    ThriftWriter& begin_list(int id, std::size_t size, Type type) {
        field(id, list);
        if (size < 15) {
            out_ += static_cast<char>(size << 4 | type);
        } else {
            out_ += static_cast<char>(0xF0 | type);
            varint(size);
        }
        return *this;
    }
    ThriftWriter& begin() {
        last_.push_back(0);
        return *this;
    }
    ThriftWriter& begin(int id) { return field(id, structure).begin(); }
    ThriftWriter& end() {
        last_.pop_back();
        out_ += '\0';
        return *this;
    }
    ThriftWriter& varint(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7)
            out_ += static_cast<char>(value | 0x80);
        out_ += static_cast<char>(value);
        return *this;
    }
    ThriftWriter& zigzag(std::int64_t value) {
        return varint(static_cast<std::uint64_t>(value) << 1 ^
                      static_cast<std::uint64_t>(value >> 63));
    }
    const std::string& bytes() const { return out_; }

private:
    std::string out_;
    std::vector<int> last_ = {0};
};

inline std::string little_endian(std::uint32_t value) {
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &value, 4);
    return bytes;
}

/// As PLAIN.
inline std::string plain_texts(const std::vector<std::string>& texts) {
    std::string bytes;
    for (const std::string& text : texts)
        bytes += little_endian(static_cast<std::uint32_t>(text.size())) + text;
    return bytes;
}

struct TestPage {
    std::string packed;  ///< as stored
    std::int64_t values = 0;
    std::int64_t unpacked_bytes = -1;  ///< -1: as many as stored
    std::int64_t packed_bytes = -1;
    std::int64_t encoding = 0;
    bool is_dictionary = false;
    bool is_index = false;
    std::int64_t crc = 0;  ///< 0: none
};

struct TestParquet {
    std::vector<TestPage> pages;
    std::int64_t rows = 0;
    std::int64_t group_rows = -1;  ///< -1: all
    std::int64_t values = -1;
    std::int64_t codec = 0;
    std::int64_t type = 6;
    std::int64_t repetition = 0;  ///< 0: the column is required, 1: optional
    std::int64_t begin = 4;
    std::int64_t chunk_bytes = -1;
    std::string path = "text";
    std::string other_file;
};

inline std::string page_bytes(const TestPage& page) {
    const auto stored = static_cast<std::int64_t>(page.packed.size());
    ThriftWriter header;
    header.integer(1, page.is_dictionary ? 2 : page.is_index ? 1 : 0);
    header.integer(2, page.unpacked_bytes < 0 ? stored : page.unpacked_bytes);
    header.integer(3, page.packed_bytes < 0 ? stored : page.packed_bytes);
    if (page.crc != 0) header.integer(4, page.crc);
    if (page.is_dictionary) {
        header.begin(7).integer(1, page.values).integer(2, page.encoding).end();
    } else if (!page.is_index) {
        header.begin(5).integer(1, page.values).integer(2, page.encoding);
        header.integer(3, 3).integer(4, 3).end();
    }
    header.end();
    return header.bytes() + page.packed;
}

inline std::string parquet_bytes(const TestParquet& file) {
    using enum ThriftWriter::Type;
    std::string pages;
    for (const TestPage& page : file.pages)
        pages += page_bytes(page);
    const auto size = static_cast<std::int64_t>(pages.size());
    ThriftWriter footer;
    footer.integer(1, 1).begin_list(2, 2, structure);
    footer.begin().text(4, "schema").integer(5, 1).end();
    footer.begin().integer(1, file.type).integer(3, file.repetition).text(4, "text").end();
    footer.integer(3, file.rows, i64).begin_list(4, 1, structure).begin();
    footer.begin_list(1, 1, structure).begin();
    if (!file.other_file.empty()) footer.text(1, file.other_file);
    footer.begin(3).integer(1, file.type);
    footer.begin_list(3, 1, binary).text(file.path).integer(4, file.codec);
    footer.integer(5, file.values < 0 ? file.rows : file.values, i64).integer(6, size, i64);
    footer.integer(7, file.chunk_bytes < 0 ? size : file.chunk_bytes, i64);
    footer.integer(9, file.begin, i64).end().end();
    footer.integer(3, file.group_rows < 0 ? file.rows : file.group_rows, i64).end().end();
    return "PAR1" + pages + footer.bytes() +
           little_endian(static_cast<std::uint32_t>(footer.bytes().size())) + "PAR1";
}

}  // namespace gptrain::test
