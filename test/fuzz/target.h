// A fuzz target: one parser with untrusted bytes as its input. Its source is linked twice: with
// libFuzzer, which generates inputs (preset `fuzz`, scripts/fuzz.sh), and with replay.cpp, which
// runs the kept ones in the normal suite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// Runs the parser once. An exception that escapes it, a sanitizer's finding, a hang or a huge
/// allocation is a bug.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace gptrain::test {

inline std::string_view as_text(const std::uint8_t* bytes, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
}

/// If set, receives what is wrong with the input, in the words of each refusal (replay.cpp).
inline std::vector<std::string>* refusals = nullptr;

inline void note_refusal(std::string_view message) {
    if (refusals != nullptr) refusals->emplace_back(message);
}

/// True if `act` accepts its input. The only other valid outcome is an Error with the code
/// `refusal` and a message of reasonable length that begins with what is at fault.
bool accepts(ExitCode refusal, std::string_view at_fault, const auto& act) {
    try {
        act();
        return true;
    } catch (const Error& error) {
        const std::string_view message = error.what();
        const bool right = error.code() == refusal && message.starts_with(at_fault) &&
                           message.size() > at_fault.size() && message.size() <= 4096;
        if (!right) throw;
        note_refusal(message);
        return false;
    }
}

}  // namespace gptrain::test
