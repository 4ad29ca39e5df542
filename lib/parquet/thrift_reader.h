// Thrift's compact protocol (apache/thrift, thrift-compact-protocol.md), in which Parquet writes
// its metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"

namespace gptrain {

enum class ThriftType : std::uint8_t {
    stop,
    yes,
    no,
    int8,
    int16,
    int32,
    int64,
    real,
    binary,
    list,
    set,
    map,
    structure,
};

/// A field whose value is to be read next; `id` is 0 for the element of a list.
struct ThriftField {
    std::int64_t id = 0;
    ThriftType type{};
};

/// Reads values one after another. Errors (bad_input) have no place: data that ends early, a value
/// of another type, structs nested too deeply. Nothing is allocated.
class ThriftReader {
public:
    explicit ThriftReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    /// The bytes read so far.
    std::size_t position() const { return at_; }

    /// Reads a struct. `read` gets each field and reads its value or skips it.
    template <class Read>
    void structure(Read read) {
        enter();
        ThriftField field;
        while (next_field(field))
            read(static_cast<const ThriftField&>(field));
        --depth_;
    }
    /// The same for the struct that is a field's value.
    template <class Read>
    void structure(const ThriftField& field, Read read) {
        expect(field, ThriftType::structure);
        structure(read);
    }
    /// Reads the list that is a field's value. `read` gets each element as a field.
    template <class Read>
    void list(const ThriftField& field, Read read) {
        enter();
        ThriftField element;
        for (std::uint64_t left = list_size(field, element); left > 0; --left)
            read(static_cast<const ThriftField&>(element));
        --depth_;
    }

    std::int64_t integer(const ThriftField& field);
    bool boolean(const ThriftField& field);
    /// A view of the bytes.
    std::string_view binary(const ThriftField& field);
    void skip(const ThriftField& field);

private:
    void enter();
    std::uint8_t byte();
    std::uint64_t varint();
    std::int64_t zigzag();
    void advance(std::uint64_t bytes);
    bool next_field(ThriftField& field);
    std::uint64_t list_size(const ThriftField& field, ThriftField& element);
    void skip_map();
    static void expect(const ThriftField& field, ThriftType type);

    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace gptrain
