// Proofs are tests that repeat something many times. In the suite they do that as often as it has
// time for; scripts/soak.sh sets GPTRAIN_SOAK=1, for which they do it far more often, and prints
// what each of them says.
#pragma once

#include <cstdlib>
#include <string_view>

#include "base/log.h"

namespace gptrain::test {

/// Whether this is a soak.
inline bool soak() {
    const char* value = std::getenv("GPTRAIN_SOAK");
    return value != nullptr && std::string_view(value) == "1";
}

/// Says what came of a proof: a line "proof NAME: FIGURES" on stdout.
template <class... Figures>
void proof(std::string_view name, const Figures&... figures) {
    print("proof ", name, ": ", figures...);
}

}  // namespace gptrain::test
