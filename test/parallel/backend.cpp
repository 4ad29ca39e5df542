#include "cpu/cpu_backend.h"
#include "ranks.h"

namespace gptrain::test {

std::unique_ptr<Backend> make_backend() {
    return cpu::make_backend();
}

std::vector<Way> ways() {
    return {};
}

std::string why_not_run() {
    return {};
}

}  // namespace gptrain::test
