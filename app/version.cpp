#include "version.h"

#include "base/text.h"
#include "device.h"

namespace gptrain {

std::string version_text() {
    return text("gptrain ", GPTRAIN_VERSION, " (", built_backends(), ")");
}

}  // namespace gptrain
