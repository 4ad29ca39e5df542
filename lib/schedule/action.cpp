#include "schedule/action.h"

#include "base/text.h"

namespace gptrain {

std::string to_text(const Action& action, std::int64_t chunks) {
    std::string out = text(name_of(action.kind), action.microbatch);
    if (chunks > 1) out += text('.', action.chunk);
    if (!computes(action.kind)) out += text(sends(action.kind) ? '>' : '<', action.peer);
    return out;
}

}  // namespace gptrain
