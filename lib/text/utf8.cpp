#include "text/utf8.h"

#include <cstdint>
#include <cstring>

namespace gptrain {
namespace {

struct Lead {
    std::size_t bytes;         // length of the character; 0: not a lead byte
    unsigned char low = 0x80;  // range of the second byte
    unsigned char high = 0xBF;
};

Lead lead_of(unsigned char byte) {
    if (byte < 0x80) return {1};
    if (byte < 0xC2) return {0};
    if (byte < 0xE0) return {2};
    if (byte == 0xE0) return {3, 0xA0, 0xBF};
    if (byte == 0xED) return {3, 0x80, 0x9F};
    if (byte < 0xF0) return {3};
    if (byte == 0xF0) return {4, 0x90, 0xBF};
    if (byte < 0xF4) return {4};
    if (byte == 0xF4) return {4, 0x80, 0x8F};
    return {0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const Lead lead = lead_of(byte(0));
    if (lead.bytes == 0) return {Utf8::invalid, 1};
    for (std::size_t i = 1; i < lead.bytes; ++i) {
        if (i == text.size()) return {Utf8::incomplete, i};
        const unsigned char low = i == 1 ? lead.low : 0x80;
        const unsigned char high = i == 1 ? lead.high : 0xBF;
        if (byte(i) < low || byte(i) > high) return {Utf8::invalid, 1};
    }
    return {Utf8::valid, lead.bytes};
}

std::size_t find_invalid_utf8(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        std::uint64_t eight = 0;
        while (text.size() - at >= sizeof eight) {
            std::memcpy(&eight, text.data() + at, sizeof eight);
            if ((eight & 0x8080808080808080u) != 0) break;
            at += sizeof eight;
        }
        if (at == text.size()) break;
        const Utf8Step step = utf8_step(text.substr(at));
        if (step.kind != Utf8::valid) return at;
        at += step.bytes;
    }
    return std::string_view::npos;
}

}  // namespace gptrain
