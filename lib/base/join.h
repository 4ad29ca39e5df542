// Lists as text.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace gptrain {

/// The items with `between` between them.
std::string joined(const auto& items, std::string_view between = ", ") {
    std::string out;
    bool first = true;
    for (const auto& item : items) {
        if (!std::exchange(first, false)) out += between;
        append(out, item);
    }
    return out;
}

}  // namespace gptrain
