// Tests on the first GPU. Exit code 77: this process sees none.
#include "base/log.h"
#include "catch_runner.h"
#include "cuda/runtime/probe.h"

int main(int argc, char** argv) {
    const gptrain::cuda::DeviceProbe probe = gptrain::cuda::probe_device(0);
    if (probe.state != gptrain::cuda::DeviceState::usable) {
        gptrain::print("not run: ", probe.reason);
        constexpr int not_run = 77;
        return not_run;
    }
    return gptrain::test::run_cases(argc, argv);
}
