// What the CUDA backend does with the runtime's answers and settings, without a GPU.
#include <cstdlib>
#include <string>

#include "catch.h"
#include "cuda/runtime/probe.h"
#include "support/captured_stderr.h"

namespace gptrain::cuda {
namespace {

TEST_CASE("kernels are loaded at the start, whatever the environment says") {
    const auto warnings = [](const char* before) {
        before == nullptr ? unsetenv("CUDA_MODULE_LOADING")
                          : setenv("CUDA_MODULE_LOADING", before, 1);
        const test::CapturedStderr captured;
        load_kernels_at_start();
        CHECK(std::string(std::getenv("CUDA_MODULE_LOADING")) == "EAGER");
        return captured.text();
    };
    CHECK(warnings(nullptr).empty());
    CHECK(warnings("EAGER").empty());
    CHECK(test::contains(warnings("LAZY"), "warning: CUDA_MODULE_LOADING=LAZY is ignored"));
}

}  // namespace
}  // namespace gptrain::cuda
