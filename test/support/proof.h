// Proofs are tests that repeat something many times: in the suite as often as time allows, and far
// more often with GPTRAIN_SOAK=1, which scripts/soak.sh sets. It also prints the figures of each
// proof.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/log.h"

namespace gptrain::test {

/// True in a soak.
inline bool soak() {
    const char* value = std::getenv("GPTRAIN_SOAK");
    return value != nullptr && std::string_view(value) == "1";
}

/// How often a proof repeats something. The address sanitizer is slow, and finds what it looks for
/// in fewer places.
inline std::int64_t repetitions(std::int64_t in_suite, std::int64_t in_soak) {
#ifdef __SANITIZE_ADDRESS__
    in_suite = in_suite / 4;
#endif
    return soak() ? in_soak : in_suite;
}

/// Prints the result of a proof as a line "proof NAME: FIGURES" on stdout.
template <class... Figures>
void proof(std::string_view name, const Figures&... figures) {
    print("proof ", name, ": ", figures...);
}

}  // namespace gptrain::test
