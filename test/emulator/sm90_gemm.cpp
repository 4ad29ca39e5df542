// The GEMM kernel for sm_90a gives the bits of a plain product in fp32 and the separate kernels of
// its epilogue. Sums of small integers are exact, so those of another library do for the product.
#include <memory>

#include "catch.h"
#include "cuda/cuda_backend.h"
#include "emulator/grid.h"
#include "emulator/sm90_gemm_cases.h"

using namespace gptrain;

namespace {

emulator::Settings hopper(emulator::Order order, bool races, std::int64_t parts) {
    return {.order = order,
            .major = 9,
            .minor = 0,
            .shared_bytes = 227 << 10,
            .races = races,
            .sm90_gemm_parts = parts};
}

class EmulatedHopper {
public:
    EmulatedHopper() {
        emulator::settings() = hopper(emulator::Order::ascending, false, 0);
        backend_ = cuda::make_backend(0, {.attention = cuda::AttentionChoice::portable});
        scratch_ = std::make_unique<ScratchMemory>(*backend_);
    }
    std::vector<HostTensor> results(const OpCase& op, const emulator::Settings& settings) {
        emulator::settings() = settings;
        OpRun run(*backend_, op, *scratch_);
        run.run();
        return run.memory();
    }

private:
    std::unique_ptr<Backend> backend_;
    std::unique_ptr<ScratchMemory> scratch_;
};

}  // namespace

TEST_CASE("the GEMM kernel for sm_90a gives the bits of a product and its epilogue", "[gemm]") {
    using enum emulator::Order;
    EmulatedHopper device;
    for (const DType dtype : {DType::bf16, DType::f16}) {
        for (const OpCase& op : sm90_gemm_cases(dtype)) {
            CAPTURE(op.name);
            const auto expected = device.results(op, hopper(ascending, false, 0));
            // Each order finds other faults; one of them also races. The kernels of fp16 differ in
            // the type alone.
            CHECK(device.results(op, hopper(ascending, dtype == DType::bf16, 3)) == expected);
            if (dtype == DType::f16) continue;
            CHECK(device.results(op, hopper(descending, false, 1)) == expected);
            CHECK(device.results(op, hopper(shuffled, false, 6)) == expected);
        }
    }
}

TEST_CASE("the order of blocks changes no bit of a weight gradient and its sums of rows",
          "[gemm]") {
    EmulatedHopper device;
    const OpCase op = sm90_rounded_case();
    const auto one = device.results(op, hopper(emulator::Order::ascending, false, 4));
    CHECK(device.results(op, hopper(emulator::Order::shuffled, false, 4)) == one);
    CHECK(device.results(op, hopper(emulator::Order::ascending, false, 2)) != one);
}

TEST_CASE("the GEMM kernel for sm_90a multiplies FP8 and adds in fp32", "[gemm]") {
    using enum emulator::Order;
    EmulatedHopper device;
    for (const OpCase& op : sm90_fp8_cases()) {
        CAPTURE(op.name);
        const auto expected = device.results(op, hopper(ascending, false, 0));
        CHECK(device.results(op, hopper(ascending, true, 3)) == expected);
        CHECK(device.results(op, hopper(descending, false, 1)) == expected);
        CHECK(device.results(op, hopper(shuffled, false, 2)) == expected);
    }
}
