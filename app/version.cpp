#include "version.h"

#include "base/text.h"

namespace gptrain {

std::string version_text() {
    return text("gptrain ", GPTRAIN_VERSION, " (cpu backend)");
}

}  // namespace gptrain
