// The encodings of numbers, on bytes written by hand or by another formula.
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "parquet/delta_decoder.h"
#include "parquet/hybrid_decoder.h"
#include "parquet/thrift_reader.h"
#include "support/parquet_writer.h"
#include "support/temp_folder.h"

using namespace gptrain;
using std::string_literals::operator""s;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}
std::span<const std::byte> bytes_of(std::string&&) = delete;  // they would be gone

std::vector<std::uint32_t> hybrid(const std::string& bytes, int width, int count) {
    HybridDecoder decoder(bytes_of(bytes), width);
    std::vector<std::uint32_t> values;
    for (int i = 0; i < count; ++i)
        values.push_back(decoder.next());
    return values;
}

using Values = std::vector<std::uint32_t>;

std::string refusal(const auto& act) {
    return test::message_of(ExitCode::bad_input, act);
}

/// Deltas in one block of 128 with four parts, each of `width` bits; every value is written bit by
/// bit.
std::string delta_block(const std::vector<std::uint64_t>& values, unsigned width) {
    test::ThriftWriter header;
    header.varint(128).varint(4).varint(values.size());
    header.zigzag(static_cast<std::int64_t>(values[0]));
    header.zigzag(0);  // the least difference
    std::string bits(4 * 32 * width, '0');
    for (std::size_t i = 1; i < values.size(); ++i) {
        const std::uint64_t difference = values[i] - values[i - 1];
        for (unsigned bit = 0; bit < width; ++bit)
            bits[(i - 1) * width + bit] = (difference >> bit & 1) != 0 ? '1' : '0';
    }
    std::string packed(bits.size() / 8, '\0');
    for (std::size_t i = 0; i < bits.size(); ++i) {
        if (bits[i] == '1') packed[i / 8] = static_cast<char>(packed[i / 8] | 1 << i % 8);
    }
    return header.bytes() + std::string(4, static_cast<char>(width)) + packed;
}

}  // namespace

TEST_CASE("runs and packed groups of the hybrid") {
    CHECK(hybrid("\x06\x05", 3, 3) == Values{5, 5, 5});
    // The example of the format: 0 to 7 in 3 bits.
    CHECK(hybrid("\x03\x88\xC6\xFA", 3, 8) == Values{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(hybrid("\x03\x88\xC6\xFA\x02\x01\x04\x02", 3, 11) ==
          Values{0, 1, 2, 3, 4, 5, 6, 7, 1, 2, 2});
    CHECK(hybrid("", 0, 3) == Values{0, 0, 0});
    CHECK(hybrid("\x02\xFF\xFF\xFF\xFF", 32, 1) == Values{0xFFFFFFFF});
    // A packed group that the page cuts off behind its last value, and empty runs.
    CHECK(hybrid("\x03\x88\xC6", 3, 5) == Values{0, 1, 2, 3, 4});
    CHECK(hybrid("\0\x01\x01\x02\x01"s, 1, 1) == Values{1});
}

TEST_CASE("a damaged hybrid is refused") {
    CHECK(refusal([] { hybrid("\x06\x05", 3, 4); }) == "its levels or indexes end early");
    CHECK(refusal([] { hybrid("\x03\x88\xC6", 3, 6); }) == "its levels or indexes end early");
    CHECK(refusal([] { hybrid("\x06", 3, 1); }) == "its levels or indexes end early");
    CHECK(refusal([] { hybrid("\x06\x08", 3, 1); }) == "a level or index has more than 3 bits");
    CHECK(refusal([] { hybrid("\xFF\xFF\xFF\xFF\xFF", 3, 1); }) ==
          "a run of its levels or indexes has no valid length");
    CHECK(refusal([] { hybrid("", 33, 1); }) == "numbers of 33 bits");
}

TEST_CASE("packed differences") {
    for (const unsigned width : {1u, 7u, 31u, 33u, 57u, 61u, 64u}) {
        std::vector<std::uint64_t> values = {3};
        std::uint64_t difference = 0x9E3779B97F4A7C15u;
        for (int i = 0; i < 99; ++i) {
            difference = difference * 6364136223846793005u + 1442695040888963407u;
            values.push_back(values.back() + (difference >> (64 - width)));
        }
        const std::string bytes = delta_block(values, width);
        const std::string longer = bytes + "behind";
        DeltaDecoder decoder(bytes_of(longer));
        CHECK(decoder.size() == bytes.size());
        CHECK(decoder.count() == values.size());
        for (const std::uint64_t value : values)
            REQUIRE(decoder.next() == static_cast<std::int64_t>(value));
        CHECK(decoder.left() == 0);
        CHECK(refusal([&] { decoder.next(); }) ==
              "damaged delta encoding: it has only 100 numbers");
    }
    const std::string single = "\x80\x01\x04\x01\x05";
    DeltaDecoder one(bytes_of(single));
    CHECK(one.size() == 5);
    CHECK(one.next() == -3);
    const std::string empty = "\x80\x01\x04\0\0"s;
    DeltaDecoder none(bytes_of(empty));
    CHECK(none.size() == 5);
    CHECK(none.count() == 0);
}

TEST_CASE("damaged packed differences are refused") {
    const auto fault = [](const std::string& bytes) {
        return refusal([&] {
            DeltaDecoder decoder(bytes_of(bytes));
            decoder.size();
            while (decoder.left() > 0)
                decoder.next();
        });
    };
    const std::string early = "damaged delta encoding: it ends early";
    CHECK(fault("\x80\x01\x04\x02\x05") == early);
    CHECK(fault("\x80\x01\x04\x02\x05\x00\x08\x00\x00\x00"s) == early);
    CHECK(fault("\x80\x01\x04\x02\x05\x00\x00\x00\x00"s) == early);
    CHECK(fault("\x80\x01\x04\x02\x05\x00\x41\x00\x00\x00"s) ==
          "damaged delta encoding: differences of 65 bits");
    CHECK(fault("\x00\x04\x02\x05"s) == "damaged delta encoding: a block of 0 values");
    CHECK(fault("\x81\x01\x04\x02\x05") == "damaged delta encoding: a block of 129 values");
    CHECK(fault("\x80\x01\x08\x02\x05") ==
          "damaged delta encoding: 8 parts of a block of 128 values");
    CHECK(fault("\x80\x01\x00\x02\x05"s) ==
          "damaged delta encoding: 0 parts of a block of 128 values");
    CHECK(fault(std::string(10, '\xFF')) ==
          "damaged delta encoding: a number of more than 64 bits");
    // As many numbers as the header likes, of no bytes: bounded by the blocks that are there.
    CHECK(fault("\x80\x01\x04\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x05\x00\x00\x00\x00\x00"s) == early);
}

TEST_CASE("Thrift values of every type are skipped") {
    using enum test::ThriftWriter::Type;
    test::ThriftWriter writer;
    writer.begin(1).boolean(1, true).boolean(40, false).integer(41, -7, i64).text(42, "text");
    writer.begin_list(43, 20, yes);
    // A map of texts and numbers, an empty map, a number of 8 bits, a real number, two ends.
    const std::string bytes = writer.bytes() + std::string(20, '\x01') +
                              "\x1B\x02\x85\x01k\x02\x01l\x04\x1B\x00\x13\x05\x17"s +
                              std::string(8, 'd') + "\0\0"s;
    ThriftReader reader(bytes_of(bytes));
    int fields = 0;
    reader.structure([&](const ThriftField& field) {
        ++fields;
        CHECK(field.id == 1);
        reader.skip(field);
    });
    CHECK(fields == 1);
    CHECK(reader.position() == bytes.size());
}
