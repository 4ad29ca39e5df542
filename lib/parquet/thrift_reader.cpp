#include "parquet/thrift_reader.h"

#include <utility>

#include "base/varint.h"

namespace gptrain {
namespace {

constexpr int max_thrift_depth = 32;

[[noreturn]] void refuse_thrift(std::string_view why) {
    fail(ExitCode::bad_input, "damaged metadata: ", why);
}

ThriftType type_of(unsigned bits) {
    if (bits > static_cast<unsigned>(ThriftType::structure))
        refuse_thrift("a value of unknown type");
    return static_cast<ThriftType>(bits);
}

}  // namespace

void ThriftReader::expect(const ThriftField& field, ThriftType type) {
    if (field.type != type)
        fail(ExitCode::bad_input, "damaged metadata: field ", field.id, " has another type");
}

void ThriftReader::enter() {
    if (++depth_ > max_thrift_depth) refuse_thrift("nested too deeply");
}

void ThriftReader::advance(std::uint64_t bytes) {
    if (bytes > bytes_.size() - at_) refuse_thrift("it ends early");
    at_ += bytes;
}

std::uint8_t ThriftReader::byte() {
    advance(1);
    return static_cast<std::uint8_t>(bytes_[at_ - 1]);
}

std::uint64_t ThriftReader::varint() {
    const auto value = read_varint([this] { return byte(); }, varint_bytes_64);
    if (!value) refuse_thrift("a number of more than 64 bits");
    return *value;
}

std::int64_t ThriftReader::zigzag() {
    return static_cast<std::int64_t>(from_zigzag(varint()));
}

bool ThriftReader::next_field(ThriftField& field) {
    const unsigned header = byte();
    if (header == 0) return false;
    field.type = type_of(header & 15);
    if (field.type == ThriftType::stop) refuse_thrift("a value of unknown type");
    const unsigned step = header >> 4;
    field.id = step == 0 ? zigzag() : field.id + step;
    if (!std::in_range<std::int16_t>(field.id)) refuse_thrift("a field of impossible number");
    return true;
}

std::uint64_t ThriftReader::list_size(const ThriftField& field, ThriftField& element) {
    if (field.type != ThriftType::set) expect(field, ThriftType::list);
    const unsigned header = byte();
    element = {0, type_of(header & 15)};
    std::uint64_t size = header >> 4;
    if (size == 15) size = varint();
    // Each element has a byte at least.
    if (size > bytes_.size() - at_) refuse_thrift("a list is longer than the data");
    return size;
}

std::int64_t ThriftReader::integer(const ThriftField& field) {
    if (field.type == ThriftType::int8) return static_cast<std::int8_t>(byte());
    if (field.type != ThriftType::int16 && field.type != ThriftType::int32)
        expect(field, ThriftType::int64);
    return zigzag();
}

bool ThriftReader::boolean(const ThriftField& field) {
    if (field.type != ThriftType::no) expect(field, ThriftType::yes);
    if (field.id == 0) return byte() == 1;
    return field.type == ThriftType::yes;
}

std::string_view ThriftReader::binary(const ThriftField& field) {
    expect(field, ThriftType::binary);
    const std::uint64_t size = varint();
    advance(size);
    return {reinterpret_cast<const char*>(bytes_.data()) + at_ - size, size};
}

void ThriftReader::skip_map() {
    const std::uint64_t size = varint();
    if (size == 0) return;
    if (size > bytes_.size() - at_) refuse_thrift("a map is longer than the data");
    const unsigned types = byte();
    enter();
    for (std::uint64_t i = 0; i < size; ++i) {
        skip({0, type_of(types >> 4)});
        skip({0, type_of(types & 15)});
    }
    --depth_;
}

void ThriftReader::skip(const ThriftField& field) {
    switch (field.type) {
        case ThriftType::stop: refuse_thrift("a value of unknown type");
        case ThriftType::yes:
        case ThriftType::no: boolean(field); break;
        case ThriftType::int8: byte(); break;
        case ThriftType::int16:
        case ThriftType::int32:
        case ThriftType::int64: varint(); break;
        case ThriftType::real: advance(8); break;
        case ThriftType::binary: binary(field); break;
        case ThriftType::list:
        case ThriftType::set:
            list(field, [this](const ThriftField& element) { skip(element); });
            break;
        case ThriftType::map: skip_map(); break;
        case ThriftType::structure:
            structure([this](const ThriftField& member) { skip(member); });
            break;
    }
}

}  // namespace gptrain
