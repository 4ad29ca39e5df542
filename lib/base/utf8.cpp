#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace gptrain {
namespace {

/// The bytes that may follow a text that is valid so far: a character, or the rest of one. Each
/// value is the number of bits by which a row of `transitions` is shifted.
enum Expected : std::uint64_t {
    character = 0,
    one_tail = 6,
    two_tails = 12,
    three_tails = 18,
    after_e0 = 24,
    after_ed = 30,
    after_f0 = 36,
    after_f4 = 42,
    invalid = 48,
};
constexpr Expected all_expected[] = {character, one_tail, two_tails, three_tails, after_e0,
                                     after_ed,  after_f0, after_f4,  invalid};

constexpr Expected expected_after(Expected before, unsigned byte) {
    const auto tail = [byte](unsigned low, unsigned high, Expected then) {
        return byte >= low && byte <= high ? then : invalid;
    };
    switch (before) {
        case one_tail: return tail(0x80, 0xBF, character);
        case two_tails: return tail(0x80, 0xBF, one_tail);
        case three_tails: return tail(0x80, 0xBF, two_tails);
        case after_e0: return tail(0xA0, 0xBF, one_tail);
        case after_ed: return tail(0x80, 0x9F, one_tail);
        case after_f0: return tail(0x90, 0xBF, two_tails);
        case after_f4: return tail(0x80, 0x8F, two_tails);
        case invalid: return invalid;
        default: break;
    }
    if (byte < 0x80) return character;
    if (byte < 0xC2) return invalid;
    if (byte < 0xE0) return one_tail;
    if (byte == 0xE0) return after_e0;
    if (byte == 0xED) return after_ed;
    if (byte < 0xF0) return two_tails;
    if (byte == 0xF0) return after_f0;
    if (byte < 0xF4) return three_tails;
    return byte == 0xF4 ? after_f4 : invalid;
}

/// For each byte, the state after it, in six bits for each state before it. A step through the
/// automaton is then one shift (P. Vognsen, Shift-based DFAs, 2020).
constexpr std::array<std::uint64_t, 256> transitions = [] {
    std::array<std::uint64_t, 256> rows{};
    for (unsigned byte = 0; byte < rows.size(); ++byte) {
        for (const Expected before : all_expected)
            rows[byte] |= std::uint64_t{expected_after(before, byte)} << before;
    }
    return rows;
}();

/// The state after a byte, in the lowest six bits.
std::uint64_t next(std::uint64_t expected, char byte) {
    return transitions[static_cast<unsigned char>(byte)] >> (expected & 63);
}

bool is_valid(std::string_view text) {
    std::uint64_t expected = character;
    while (text.size() >= 8) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, text.data(), sizeof eight);
        const bool ascii = (eight & 0x8080808080808080u) == 0;
        if (!ascii || (expected & 63) != character) {
            for (int i = 0; i < 8; ++i)
                expected = next(expected, text[i]);
        }
        text.remove_prefix(8);
    }
    for (const char byte : text)
        expected = next(expected, byte);
    return (expected & 63) == character;
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
    std::uint64_t expected = character;
    for (std::size_t i = 0; i < text.size(); ++i) {
        expected = next(expected, text[i]);
        if ((expected & 63) == character) return {Utf8::valid, i + 1};
        if ((expected & 63) == invalid) return {Utf8::invalid, 1};
    }
    return {Utf8::incomplete, text.size()};
}

std::size_t find_invalid_utf8(std::string_view text) {
    if (is_valid(text)) return std::string_view::npos;
    std::size_t at = 0;
    for (Utf8Step step; (step = utf8_step(text.substr(at))).kind == Utf8::valid;)
        at += step.bytes;
    return at;
}

std::int64_t count_characters(std::string_view text) {
    return std::count_if(text.begin(), text.end(), begins_character);
}

}  // namespace gptrain
