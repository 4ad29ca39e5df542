// Proofs are tests that repeat something many times: in the suite as often as time allows, and far
// more often with GPTRAIN_SOAK=1, which scripts/soak.sh sets. It also prints the figures of each
// proof.
#pragma once

#include <cstdlib>
#include <string_view>

#include "base/log.h"

namespace gptrain::test {

/// True in a soak.
inline bool soak() {
    const char* value = std::getenv("GPTRAIN_SOAK");
    return value != nullptr && std::string_view(value) == "1";
}

/// True under the address sanitizer, which is slow.
#ifdef __SANITIZE_ADDRESS__
constexpr bool address_sanitizer = true;
#else
constexpr bool address_sanitizer = false;
#endif

/// Prints the result of a proof as a line "proof NAME: FIGURES" on stdout.
template <class... Figures>
void proof(std::string_view name, const Figures&... figures) {
    print("proof ", name, ": ", figures...);
}

}  // namespace gptrain::test
