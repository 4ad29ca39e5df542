#include "base/nf4.h"

#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "catch.h"
#include "expected_nf4.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

/// As in make_nf4_fixture.py.
std::vector<float> matrix(std::int64_t elements) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < elements; ++i) {
        const std::int64_t whole = (i * 7919 + i * i % 1013 * 31 + 11) % 2003 - 1001;
        const std::int64_t block = i / 64;
        const double size = block % 7 == 5 ? 0 : std::ldexp(1, -static_cast<int>(block * 5 % 9));
        x.push_back(static_cast<float>(static_cast<double>(whole) / 1024 * size));
    }
    return x;
}

template <class T, std::size_t count>
std::vector<std::byte> bytes_of(const T (&values)[count]) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
}

template <class T>
std::uint32_t crc_of(std::span<const T> values) {
    return crc32c(values.data(), values.size_bytes());
}

std::vector<float> own_factors(const Nf4Bytes& matrix) {
    return {matrix.factors.begin() + nf4_map_size, matrix.factors.end()};
}

std::vector<float> values_of(const Nf4View& matrix) {
    std::vector<float> values(static_cast<std::size_t>(matrix.elements()));
    matrix.read(0, 1, values);
    return values;
}

}  // namespace

TEST_CASE("NF4 has the bytes of bitsandbytes' formulas") {
    const Nf4Bytes plain = to_nf4(matrix(192), false);
    CHECK(plain.codes == bytes_of(nf4_codes));
    CHECK(plain.scales == bytes_of(nf4_scales));
    CHECK(plain.factors.empty());
    const Nf4Bytes nested = to_nf4(matrix(192), true);
    CHECK(nested.codes == plain.codes);
    CHECK(nested.scales == bytes_of(nf4_nested_codes));
    CHECK(own_factors(nested) ==
          std::vector<float>(std::begin(nf4_factors), std::end(nf4_factors)));
}

TEST_CASE("NF4 of many blocks has the bytes of bitsandbytes' formulas") {
    CHECK(crc_of(std::span<const float>(nf4_scale_map())) == nf4_large_map_crc);
    const Nf4Bytes plain = to_nf4(matrix(nf4_large), false);
    CHECK(crc_of(std::span<const std::byte>(plain.codes)) == nf4_large_codes_crc);
    CHECK(crc_of(std::span<const std::byte>(plain.scales)) == nf4_large_scales_crc);
    const Nf4Bytes nested = with_scales(plain.view(), true);
    CHECK(nested.codes == plain.codes);
    CHECK(crc_of(std::span<const std::byte>(nested.scales)) == nf4_large_nested_codes_crc);
    CHECK(crc_of(std::span<const float>(own_factors(nested))) == nf4_large_factors_crc);
}

TEST_CASE("NF4 of values that come from NF4 is the same") {
    for (const bool nested : {false, true}) {
        const Nf4Bytes first = to_nf4(matrix(64 * 300), nested);
        const std::vector<float> values = values_of(first.view());
        const Nf4Bytes second = to_nf4(values, false);
        CHECK(values_of(second.view()) == values);
        CHECK(values_of(with_scales(first.view(), false).view()) == values);
        CHECK(values_of(with_scales(first.view(), nested).view()) == values);
    }
}

TEST_CASE("a part of a matrix in NF4 has the scales of the whole one") {
    const Nf4Bytes whole = to_nf4(matrix(64 * 900), true);  // [300, 192], columns 64 to 127
    std::vector<std::uint8_t> codes;
    for (std::int64_t row = 0; row < 300; ++row)
        codes.push_back(
            std::to_integer<std::uint8_t>(whole.scales[static_cast<std::size_t>(row * 3 + 1)]));
    const Nf4Scales scales = {
        .codes = codes.data(),
        .factors = whole.factors.data(),
        .part = {.blocks = 300, .first = 1, .row_blocks = 1, .skipped = 2, .factors = 4}};
    for (std::int64_t row = 0; row < 300; ++row)
        CHECK(scales(row) == whole.view().scale(row * 3 + 1));
}

TEST_CASE("a block in NF4 with a number that is not finite is NaN") {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        std::vector<float> x(192, 1.0F);
        x[70] = bad;
        const std::vector<float> values = values_of(to_nf4(x, false).view());
        for (std::size_t i = 0; i < x.size(); ++i) {
            CHECK(std::isnan(values[i]) == (i >= 64 && i < 128));
            if (i < 64 || i >= 128) CHECK(values[i] == 1);
        }
    }
}
