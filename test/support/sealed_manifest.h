// Manifests without their last line, which can be edited by hand and by fuzzers.
#pragma once

#include <string>
#include <string_view>

#include "base/crc32c.h"
#include "base/text.h"

namespace gptrain::test {

/// The manifest with its last line, the correct checksum, as an attacker would add it.
inline std::string sealed(std::string_view body) {
    return text(body, "\"crc32c\":", crc32c(body.data(), body.size()), "}\n");
}

}  // namespace gptrain::test
