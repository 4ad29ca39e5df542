// Mutations that keep a manifest well-formed: set a number to an edge of the integer range or
// change it a little; else libFuzzer's own mutations.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "fuzz/target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* bytes, std::size_t size,
                                        std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size,
                                               std::size_t max_size, unsigned int seed);

namespace {

struct Range {
    std::size_t begin;
    std::size_t end;
};

std::vector<Range> numbers_in(const std::string& json) {
    const auto is_digit = [&](std::size_t i) {
        return std::isdigit(static_cast<unsigned char>(json[i])) != 0;
    };
    std::vector<Range> numbers;
    for (std::size_t i = 0; i < json.size(); ++i) {
        if (!is_digit(i)) continue;
        std::size_t begin = i;
        while (i < json.size() && is_digit(i))
            ++i;
        if (begin > 0 && json[begin - 1] == '-') --begin;
        numbers.push_back({begin, i});
    }
    return numbers;
}

std::string hostile_number(const std::string& number, std::minstd_rand& random) {
    const std::string values[] = {"0",
                                  "1",
                                  "-1",
                                  "2147483648",
                                  "4294967296",
                                  "1152921504606846976",
                                  "2305843009213693952",
                                  "4611686018427387904",
                                  "9223372036854775807",
                                  "-9223372036854775808",
                                  "18446744073709551615",
                                  "18446744073709551616",
                                  "1e400",
                                  "0.5",
                                  "\"1\"",
                                  "[]"};
    const auto value = gptrain::parse_int(number);
    if (!value || random() % 2 == 0) return values[random() % std::size(values)];
    const auto wide = static_cast<std::uint64_t>(*value);
    const std::uint64_t changes[] = {wide + 1, wide - 1, wide + 4, wide - 4, wide * 2, 0 - wide};
    return gptrain::text(static_cast<std::int64_t>(changes[random() % std::size(changes)]));
}

}  // namespace

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size, std::size_t max_size,
                                    unsigned int seed) {
    std::minstd_rand random(seed);
    std::string json(gptrain::test::as_text(bytes, size));
    const std::vector<Range> numbers = numbers_in(json);
    if (numbers.empty() || random() % 3 == 0) return LLVMFuzzerMutate(bytes, size, max_size);
    const Range number = numbers[random() % numbers.size()];
    const std::size_t length = number.end - number.begin;
    json.replace(number.begin, length, hostile_number(json.substr(number.begin, length), random));
    const std::size_t kept = std::min(json.size(), max_size);
    std::memcpy(bytes, json.data(), kept);
    return kept;
}
