// Mutations that know the fields of an .idx: set one to an edge of its range, change it a little,
// or add a whole sequence; else libFuzzer's own mutations.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "fuzz/target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* bytes, std::size_t size,
                                        std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size,
                                               std::size_t max_size, unsigned int seed);

namespace {

constexpr std::size_t header_bytes = 34;
constexpr std::size_t sequences_at = 18;
constexpr std::size_t entries_at = 26;

std::uint64_t number_at(const std::string& idx, std::size_t at, std::size_t width) {
    std::uint64_t value = 0;
    std::memcpy(&value, idx.data() + at, width);
    return value;
}

void put(std::string& idx, std::size_t at, std::uint64_t value, std::size_t width) {
    std::memcpy(idx.data() + at, &value, width);
}

struct Field {
    std::size_t at;
    std::size_t width;
};

/// A field of the header or of one of the three arrays.
Field any_field(const std::string& idx, std::minstd_rand& random) {
    constexpr Field header[] = {{9, 8}, {17, 1}, {sequences_at, 8}, {entries_at, 8}};
    if (idx.size() < header_bytes + 8 || random() % 4 == 0) return header[random() % 4];
    const std::size_t room = idx.size() - header_bytes;
    const std::size_t lengths =
        4 * std::min<std::uint64_t>(number_at(idx, sequences_at, 8), room / 4);
    if (lengths > 0 && random() % 2 == 0) return {header_bytes + random() % (lengths / 4) * 4, 4};
    const std::size_t wide = (room - lengths) / 8;
    if (wide == 0) return header[random() % 4];
    return {header_bytes + lengths + random() % wide * 8, 8};
}

std::uint64_t hostile_number(std::uint64_t value, std::minstd_rand& random) {
    constexpr std::uint64_t bit = 1;
    const std::uint64_t values[] = {0,         1,         2,         4,         8,
                                    bit << 31, bit << 32, bit << 60, bit << 61, bit << 62,
                                    bit << 63, ~bit,      value + 1, value - 1, value + 2,
                                    value - 2, value * 2, ~value};
    return values[random() % std::size(values)];
}

/// Adds a sequence of u16 or i32 at the end of the last document.
std::string with_sequence(const std::string& idx, std::minstd_rand& random) {
    const std::uint64_t sequences = number_at(idx, sequences_at, 8);
    const std::uint64_t entries = number_at(idx, entries_at, 8);
    const std::size_t room = idx.size() - header_bytes;
    if (sequences == 0 || entries == 0 || sequences > room / 12 ||
        room != 12 * sequences + 8 * entries)
        return idx;
    const std::size_t offsets = header_bytes + 4 * sequences;
    const std::size_t documents = offsets + 8 * sequences;
    const std::uint64_t width = idx[17] == 4 ? 4 : 2;
    const std::uint64_t end =
        number_at(idx, documents - 8, 8) + width * number_at(idx, offsets - 4, 4);
    std::string grown = idx;
    put(grown, sequences_at, sequences + 1, 8);
    put(grown, idx.size() - 8, sequences + 1, 8);
    std::string number(8, '\0');
    put(number, 0, end, 8);
    grown.insert(documents, number);
    put(number, 0, random() % 5, 8);
    return grown.insert(offsets, number, 0, 4);
}

}  // namespace

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size, std::size_t max_size,
                                    unsigned int seed) {
    std::minstd_rand random(seed);
    std::string idx(gptrain::test::as_text(bytes, size));
    const unsigned choice = random() % 8;
    if (size < header_bytes || choice < 2) return LLVMFuzzerMutate(bytes, size, max_size);
    if (choice == 2) {
        idx = with_sequence(idx, random);
    } else {
        const Field field = any_field(idx, random);
        put(idx, field.at, hostile_number(number_at(idx, field.at, field.width), random),
            field.width);
    }
    const std::size_t kept = std::min(idx.size(), max_size);
    std::memcpy(bytes, idx.data(), kept);
    return kept;
}
