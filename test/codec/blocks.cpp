// Blocks of Snappy and LZ4, written by hand from the descriptions of their formats.
#include <string>

#include "base/error.h"
#include "catch.h"
#include "codec/block_decompressor.h"
#include "codec/crc32.h"
#include "support/temp_folder.h"

using namespace gptrain;

namespace {

std::string repeated(const std::string& part, int times) {
    std::string all;
    for (int i = 0; i < times; ++i)
        all += part;
    return all;
}

/// The block's text, or what is wrong with it.
std::string unpacked(BlockCodec codec, const std::string& block, std::size_t size) {
    std::string out(size, '?');
    const std::string fault = test::message_of(ExitCode::bad_input, [&] {
        BlockDecompressor().unpack(codec, std::as_bytes(std::span(block)),
                                   std::as_writable_bytes(std::span(out)));
    });
    return fault.empty() ? out : fault;
}

std::string snappy(const std::string& block, std::size_t size) {
    return unpacked(BlockCodec::snappy, block, size);
}

std::string lz4(const std::string& block, std::size_t size) {
    return unpacked(BlockCodec::lz4, block, size);
}

using std::string_literals::operator""s;

}  // namespace

TEST_CASE("Snappy: literals and matches of every form") {
    CHECK(snappy("\x03\x08"
                 "abc",
                 3) == "abc");
    CHECK(snappy("\x00"s, 0) == "");
    // A match of 7 bytes, 3 back: it repeats itself.
    CHECK(snappy("\x0A\x08"
                 "abc"
                 "\x0D\x03"s,
                 10) == "abcabcabca");
    // Offsets of two and four bytes.
    CHECK(snappy("\x07\x08"
                 "abc"
                 "\x0E\x03\x00"s,
                 7) == "abcabca");
    CHECK(snappy("\x07\x08"
                 "abc"
                 "\x0F\x03\x00\x00\x00"s,
                 7) == "abcabca");
    // A literal whose length has a byte, and one with two.
    const std::string text = repeated("0123456789", 10);
    CHECK(snappy("\x64\xF0\x63" + text, 100) == text);
    CHECK(snappy("\x64\xF4\x63\x00"s + text, 100) == text);
    const std::string longer = repeated("0123456789", 30);
    CHECK(snappy("\xB0\x02\xF4\x2B\x01" + longer + "\x21\x2C", 304) == longer + "0123");
    // Long matches, from nearby and from far.
    CHECK(snappy("\x45\x10"
                 "abcde"
                 "\xFE\x05\x00"s,
                 69) == repeated("abcde", 14).substr(0, 69));
    CHECK(snappy("\xA4\x01\xF0\x63" + text + "\xFE\x64\x00"s, 164) == text + text.substr(0, 64));
}

TEST_CASE("Snappy: a damaged block is refused") {
    const std::string abc =
        "\x08"
        "abc";
    CHECK(snappy("\x03" + abc, 4) == "its Snappy data has 3 bytes instead of 4");
    CHECK(snappy("\x04" + abc, 4) == "its Snappy data ends after 3 of 4 bytes");
    CHECK(snappy("\x02" + abc, 2) == "more data than its header states");
    CHECK(snappy("\x05\x10"
                 "ab",
                 5) == "its compressed data is cut off");
    CHECK(snappy("\x05\xF0", 5) == "its Snappy data is cut off");
    CHECK(snappy("", 0) == "");
    CHECK(snappy("", 1) == "its Snappy data is cut off");
    CHECK(snappy("\xFF\xFF\xFF\xFF\xFF", 1) == "its Snappy data has no valid size");
    CHECK(snappy("\x07" + abc + "\x0E\x04\x00"s, 7) ==
          "a match begins before the data, 4 bytes back");
    CHECK(snappy("\x07" + abc + "\x0E\x00\x00"s, 7) ==
          "a match begins before the data, 0 bytes back");
    CHECK(snappy("\x06" + abc + "\x0E\x03\x00"s, 6) == "more data than its header states");
}

TEST_CASE("LZ4: literals and matches") {
    CHECK(lz4("\x30"
              "abc",
              3) == "abc");
    CHECK(lz4("\x00"s, 0) == "");
    // A match of 7 bytes, 3 back, then a literal.
    CHECK(lz4("\x33"
              "abc"
              "\x03\x00\x10"
              "z"s,
              11) == "abcabcabcaz");
    CHECK(lz4("\x33"
              "abc"
              "\x03\x00\xA0"
              "zzzzzzzzzz"s,
              20) == "abcabcabcazzzzzzzzzz");
    // Lengths above 14 go on in bytes of 255.
    const std::string text = repeated("0123456789", 30);
    CHECK(lz4("\xF0\xFF\x1E" + text, 300) == text);
    CHECK(lz4("\x1F"
              "a"
              "\x01\x00\xFF\x00\x00"s,
              1 + 4 + 15 + 255) == std::string(275, 'a'));
}

TEST_CASE("LZ4: a damaged block is refused") {
    CHECK(lz4("", 1) == "its LZ4 data is cut off");
    CHECK(lz4("\xF0", 15) == "its LZ4 data is cut off");
    CHECK(lz4("\x30"
              "ab",
              3) == "its compressed data is cut off");
    CHECK(lz4("\x30"
              "abc",
              2) == "more data than its header states");
    CHECK(lz4("\x30"
              "abc",
              4) == "its LZ4 data has 3 bytes instead of 4");
    CHECK(lz4("\x33"
              "abc"
              "\x04\x00\x00"s,
              10) == "a match begins before the data, 4 bytes back");
    CHECK(lz4("\x33"
              "abc"
              "\x03\x00\x00"s,
              9) == "more data than its header states");
}

TEST_CASE("LZ4 as Hadoop frames it") {
    const auto framed = [](const std::string& data, std::size_t size) {
        return unpacked(BlockCodec::hadoop_lz4, data, size);
    };
    const std::string one =
        "\0\0\0\x03\0\0\0\x04\x30"
        "abc"s;
    const std::string two =
        "\0\0\0\x02\0\0\0\x03\x20"
        "de"s;
    CHECK(framed(one, 3) == "abc");
    CHECK(framed(one + two, 5) == "abcde");
    // Old writers give a bare block the same name.
    CHECK(framed("\x30"
                 "abc",
                 3) == "abc");
    CHECK(framed(one, 4) != "abc");
}

TEST_CASE("blocks of zlib and libzstd") {
    // gzip of "abc", twice.
    const std::string member =
        "\x1F\x8B\x08\0\0\0\0\0\0\x03\x4B\x4C\x4A\x06\0\xC2\x41\x24\x35\x03\0\0\0"s;
    CHECK(unpacked(BlockCodec::gzip, member, 3) == "abc");
    CHECK(unpacked(BlockCodec::gzip, member + member, 6) == "abcabc");
    CHECK(unpacked(BlockCodec::gzip, member, 2) == "more data than its header states");
    CHECK(unpacked(BlockCodec::gzip, member, 4) == "its gzip data has 3 bytes instead of 4");
    CHECK(unpacked(BlockCodec::gzip, member.substr(0, 18), 3) == "its gzip data is cut off");
    CHECK(unpacked(BlockCodec::gzip, "abc", 3).starts_with("damaged gzip data: "));
    // zstd of "abc", as a raw block in a frame.
    const std::string frame =
        "\x28\xB5\x2F\xFD\x20\x03\x19\0\0"
        "abc"s;
    CHECK(unpacked(BlockCodec::zstd, frame, 3) == "abc");
    CHECK(unpacked(BlockCodec::zstd, frame, 4) == "its zstd data has 3 bytes instead of 4");
    CHECK(unpacked(BlockCodec::zstd, frame, 2).starts_with("damaged zstd data: "));
    CHECK(unpacked(BlockCodec::none, "abc", 3) == "abc");
    CHECK(unpacked(BlockCodec::none, "abc", 4) == "it has 3 bytes instead of 4");
}

TEST_CASE("the checksum of gzip") {
    CHECK(crc32_of(std::as_bytes(std::span(std::string_view("123456789")))) == 0xCBF43926u);
}
