// Numbers, text, random streams and checksums.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/dtype.h"
#include "base/fp8.h"
#include "base/philox.h"
#include "base/text.h"
#include "catch.h"
#include "ops/expected_random.h"

using namespace gptrain;

TEST_CASE("text writes values so that they read back", "[base]") {
    CHECK(text("a", 1, ' ', -2.5, true, std::string("b")) == "a1 -2.5trueb");
    CHECK(text(0.1) == "0.1");
    CHECK(parse_double(text(1.0 / 3)) == 1.0 / 3);
    CHECK(fixed(2.0 / 3, 2) == "0.67");
    CHECK(human_bytes(1023) == "1023 B");
    CHECK(human_bytes(1536) == "1.50 KiB");
    CHECK(human_count(124439808) == "124 M");
    CHECK(grouped(124439808) == "124,439,808");
    CHECK(grouped(999) == "999");
    CHECK(grouped(-1000) == "-1,000");
    CHECK(counted(1, "step") == "1 step");
    CHECK(counted(1000, "step") == "1,000 steps");
    CHECK(human_time(59.4) == "59 s");
    CHECK(human_time(185) == "3 min 05 s");
    CHECK(human_time(7620) == "2 h 07 min");
    CHECK(human_time(12.5 * 86400) == "12 days");
}

TEST_CASE("a date has two digits for month and day", "[base]") {
    using namespace std::chrono;
    CHECK(date_text(2026y / January / 5) == "2026-01-05");
    CHECK(date_text(2026y / November / 22) == "2026-11-22");
    CHECK(today().size() == 10);
}

TEST_CASE("numbers are whole words", "[base]") {
    CHECK(parse_int("-12") == -12);
    for (const char* word : {"", "+1", "1 ", " 1", "1.0", "0x10", "9223372036854775808"}) {
        CAPTURE(word);
        CHECK_FALSE(parse_int(word));
    }
    CHECK(parse_double("6.0e-4") == 6e-4);
    for (const char* word : {"", "nan", "inf", "1e999", "1,5", "1.5x"}) {
        CAPTURE(word);
        CHECK_FALSE(parse_double(word));
    }
}

TEST_CASE("counts of bytes have units", "[base]") {
    CHECK(parse_bytes("80GB") == 80'000'000'000);
    CHECK(parse_bytes("80GiB") == 80 * (std::int64_t{1} << 30));
    CHECK(parse_bytes("1.5 MiB") == 3 << 19);
    for (const char* word : {"", "80", "GB", "0GB", "-1GB", "80gb", "80G", "80  GB", "1e99TB"}) {
        CAPTURE(word);
        CHECK_FALSE(parse_bytes(word));
    }
}

TEST_CASE("the nearest word is one that could be meant", "[base]") {
    const std::vector<std::string> words = {"num_layers", "hidden_size", "seed"};
    CHECK(nearest("num_layrs", words) == "num_layers");
    CHECK(nearest("sed", words) == "seed");
    CHECK_FALSE(nearest("optimizer", words));
}

TEST_CASE("arithmetic refuses to overflow", "[base]") {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    CHECK_THROWS_AS(checked_mul(most, 2), Error);
    CHECK_THROWS_AS(checked_add(most, 1), Error);
    CHECK_THROWS_AS(narrow<std::int8_t>(128), Error);
    CHECK_THROWS_AS(div_exact(7, 2), Error);
    CHECK(round_up(1, 256) == 256);
    CHECK(round_up(512, 256) == 512);
}

namespace {

/// Checks all numbers of the format: each rounds to itself, and a number between two neighbours
/// rounds to the nearer one, a tie to the even one.
template <class Fp8>
void check_fp8() {
    const auto value = [](int bits) { return to_float(Fp8{static_cast<std::uint8_t>(bits)}); };
    const auto rounded = [](float x) { return int{to_fp8<Fp8>(x).bits}; };
    for (int bits = 0; std::isfinite(value(bits + 1)) && bits < 127; ++bits) {
        CAPTURE(bits);
        CHECK(rounded(value(bits)) == bits);
        CHECK(rounded(-value(bits)) == bits + 128);
        const float middle = (value(bits) + value(bits + 1)) / 2;
        CHECK(rounded(middle) == bits + bits % 2);
        CHECK(rounded(std::nextafter(middle, 0.0f)) == bits);
        CHECK(rounded(std::nextafter(middle, 1e9f)) == bits + 1);
    }
    CHECK(to_float(to_fp8<Fp8>(1e30f)) == Fp8::largest);
    CHECK(to_float(to_fp8<Fp8>(-std::numeric_limits<float>::infinity())) == -Fp8::largest);
    CHECK(std::isnan(to_float(to_fp8<Fp8>(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace

TEST_CASE("FP8 types round to nearest even and end at their largest number", "[base]") {
    CHECK(to_float(F8E4M3{0x01}) == 0x1p-9f);
    CHECK(to_float(F8E4M3{0x38}) == 1);
    CHECK(to_float(F8E4M3{0x7e}) == 448);
    CHECK(to_float(F8E5M2{0x01}) == 0x1p-16f);
    CHECK(to_float(F8E5M2{0x3c}) == 1);
    CHECK(to_float(F8E5M2{0x7b}) == 57344);
    check_fp8<F8E4M3>();
    check_fp8<F8E5M2>();
}

TEST_CASE("16-bit types round to nearest even", "[base]") {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const F16 half{static_cast<std::uint16_t>(bits)};
        const Bf16 brain{static_cast<std::uint16_t>(bits)};
        if (!std::isnan(to_float(half))) REQUIRE(to_f16(to_float(half)).bits == bits);
        if (!std::isnan(to_float(brain))) REQUIRE(to_bf16(to_float(brain)).bits == bits);
    }
    CHECK(to_float(to_f16(1.0f + 0x1p-11f)) == 1.0f);
    CHECK(to_float(to_f16(1.0f + 0x1.8p-10f)) == 1.0f + 0x1p-9f);
    CHECK(to_float(to_bf16(1.0f + 0x1p-8f)) == 1.0f);
    CHECK(std::isinf(to_float(to_f16(65520.0f))));
    CHECK(to_float(to_f16(65519.0f)) == 65504.0f);
    CHECK(to_float(to_f16(0x1p-25f)) == 0.0f);
    CHECK(to_float(to_f16(0x1.8p-25f)) == 0x1p-24f);
    CHECK(std::isnan(to_float(to_bf16(std::nanf("")))));
    CHECK(std::isnan(to_float(to_f16(std::nanf("")))));
}

TEST_CASE("Philox gives the numbers of its authors", "[base]") {
    // Published test vectors of Random123 for philox4x32-10.
    CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
          PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
          PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("streams and hashes are those of an independent implementation", "[base]") {
    for (const expected::Stream& stream : expected::streams) {
        const PhiloxKey key = philox_stream(stream.seed, stream.a, stream.b, stream.c);
        CHECK(key.low == stream.low);
        CHECK(key.high == stream.high);
    }
    for (const expected::NameHash& of : expected::name_hashes)
        CHECK(name_hash(of.name) == of.hash);
}

TEST_CASE("CRC-32C of known texts, and of joined pieces", "[base]") {
    CHECK(crc32c("123456789", 9) == 0xE3069283u);
    CHECK(crc32c(std::string(32, '\0').data(), 32) == 0x8A9136AAu);
    std::string bytes(100'003, 'x');
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<char>(i * i % 251);
    const std::uint32_t whole = crc32c(bytes.data(), bytes.size());
    for (const std::size_t cut :
         {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{12'289}, bytes.size()}) {
        CAPTURE(cut);
        const std::uint32_t first = crc32c(bytes.data(), cut);
        const std::size_t rest = bytes.size() - cut;
        CHECK(crc32c(bytes.data() + cut, rest, first) == whole);
        CHECK(crc32c_combine(first, crc32c(bytes.data() + cut, rest), rest) == whole);
        const auto all = std::as_bytes(std::span(bytes));
        CHECK((crc32c_part(all.first(cut), rest) ^ crc32c_part(all.subspan(cut), 0)) == whole);
    }
}
