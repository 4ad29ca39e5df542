// The CUDA backend's use of the runtime's answers and settings, without a GPU.
#include <cstdlib>
#include <string>

#include "catch.h"
#include "cuda/runtime/call.h"
#include "cuda/runtime/probe.h"
#include "support/captured_stderr.h"

namespace gptrain::cuda {
namespace {

TEST_CASE("failed hardware has an exit code that restarts a job, unlike a bug and a wrong start") {
    CHECK(exit_code_of(cudaErrorMemoryAllocation) == ExitCode::usage);
    CHECK(exit_code_of(cudaErrorDevicesUnavailable) == ExitCode::usage);
    for (const cudaError_t status :
         {cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorContained,
          cudaErrorExternalDevice, cudaErrorSystemNotReady, cudaErrorUnknown})
        CHECK(exit_code_of(status) == ExitCode::hang);
    for (const cudaError_t status : {cudaErrorIllegalAddress, cudaErrorLaunchFailure,
                                     cudaErrorMisalignedAddress, cudaErrorInvalidValue})
        CHECK(exit_code_of(status) == ExitCode::bug);
    CHECK_NOTHROW(check_cuda(cudaSuccess, "a call"));
    CHECK(test::contains(
        test::message_of(ExitCode::hang, [] { check_cuda(cudaErrorUnknown, "a call"); }),
        "CUDA: a call: unknown error"));
}

TEST_CASE("kernels are loaded at the start, whatever the environment says") {
    const auto warnings = [](const char* before) {
        before == nullptr ? unsetenv("CUDA_MODULE_LOADING")
                          : setenv("CUDA_MODULE_LOADING", before, 1);
        const test::CapturedStderr captured;
        set_cuda_environment();
        CHECK(std::string(std::getenv("CUDA_MODULE_LOADING")) == "EAGER");
        return captured.text();
    };
    CHECK(warnings(nullptr).empty());
    CHECK(warnings("EAGER").empty());
    CHECK(test::contains(warnings("LAZY"), "warning: CUDA_MODULE_LOADING=LAZY is ignored"));
}

TEST_CASE("each stream has a queue, unless the user says otherwise") {
    constexpr const char* name = "CUDA_DEVICE_MAX_CONNECTIONS";
    unsetenv(name);
    set_cuda_environment();
    CHECK(std::string(std::getenv(name)) == "32");
    setenv(name, "16", 1);
    set_cuda_environment();
    CHECK(std::string(std::getenv(name)) == "16");
}

}  // namespace
}  // namespace gptrain::cuda
