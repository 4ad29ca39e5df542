// When tuning gives a GEMM to our kernel for sm_90a; over the library in fake_cublas_lt.cpp and the
// emulator's device.
#include <algorithm>
#include <cublasLt.h>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "catch.h"
#include "cuda/fake_cublas_lt.h"
#include "cuda/gemm/agreement.h"
#include "cuda/gemm/gemms.h"
#include "cuda/gemm/sm90/gemm.h"
#include "cuda/gemm/tuning.h"
#include "cuda/gemm_operands.h"
#include "emulator/grid.h"
#include "emulator/memory.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

using test::contains;

/// y = x w^T of 8 x 8 ones, in memory that kernels may access.
class Ones {
public:
    Ones() {
        for (std::int64_t i = 0; i < count; ++i)
            x_[i] = weight_[i] = to_bf16(1);
    }
    Ones(const Ones&) = delete;
    Ones& operator=(const Ones&) = delete;
    ~Ones() {
        for (Bf16* values : {x_, weight_, y_})
            release(reinterpret_cast<std::byte*>(values), MemorySpace::device);
    }
    Gemm gemm() const {
        return {.a = matrix(x_), .b = matrix(weight_).transposed(), .c = matrix(y_)};
    }
    void clear() const { std::fill(y_, y_ + count, to_bf16(0)); }
    bool right() const {
        return std::all_of(y_, y_ + count, [](Bf16 y) { return to_float(y) == 8; });
    }

private:
    static constexpr std::int64_t count = 64;
    static Bf16* make() {
        return reinterpret_cast<Bf16*>(allocate(count * 2, MemorySpace::device));
    }
    static Matrix matrix(Bf16* values) {
        return Matrix(Tensor(reinterpret_cast<std::byte*>(values), DType::bf16, {8, 8}));
    }
    Bf16* x_ = make();
    Bf16* weight_ = make();
    Bf16* y_ = make();
};

int runs_of_kernel = 0;

void kernel(const GemmPart& part, const OpContext& context) {
    REQUIRE(part.kind == GemmPart::Kind::sm90);
    ++runs_of_kernel;
    sm90::multiply(part.gemm, part.sm90_parts, context);
}
/// Stores the right result, in no time next to the emulated kernel.
void fast_kernel(const GemmPart& part, const OpContext& context) {
    context.stream.issue(
        [y = reinterpret_cast<Bf16*>(part.gemm.c.data)] { std::fill(y, y + 64, to_bf16(8)); });
}
/// The fastest of all.
void kernel_that_does_nothing(const GemmPart& /*part*/, const OpContext& /*context*/) {}

constexpr bool tunes_sm90 = true;

class Hopper {
public:
    Device& device() { return device_; }
    /// A table that was tuned while the library takes so many milliseconds for a GEMM.
    std::string tuned(std::int64_t delay, bool with_sm90, PartKernel* kernel_of_ours) {
        TuningTable table;
        Gemms gemms(device_.properties, &table, with_sm90);
        const Ones ones;
        fake_cublas_lt_delay(fake_plain, delay);
        gemms.tune([&] {
            ones.clear();
            gemms.run(ones.gemm(), kernel_of_ours, device_.context());
        });
        fake_cublas_lt_delay(fake_plain, 0);
        device_.synchronize();
        return table.to_text();
    }

private:
    /// Until the end of the test.
    struct Settings {
        emulator::Settings before = std::exchange(
            emulator::settings(), {.major = 9, .minor = 0, .shared_bytes = 227 << 10});
        ~Settings() { emulator::settings() = before; }
    } settings_;
    Device device_;
};

TEST_CASE("tuning gives a GEMM to our kernel for sm_90a where it may, and it is faster",
          "[gemms]") {
    Hopper hopper;
    constexpr std::int64_t slow = 20;
    CHECK_FALSE(contains(hopper.tuned(slow, false, fast_kernel), " sm90:"));
    CHECK_FALSE(contains(hopper.tuned(0, tunes_sm90, kernel), " sm90:"));
    const std::string table = hopper.tuned(slow, tunes_sm90, fast_kernel);
    CHECK(contains(table, " sm90:1\n"));
    CHECK(contains(table, "entries 1\n"));

    // The table alone decides afterwards.
    TuningTable other;
    Gemms gemms(hopper.device().properties, &other);
    CHECK(gemms.use_table(table));
    const Ones ones;
    const std::int64_t library = fake_cublas_lt_runs_of(fake_plain);
    runs_of_kernel = 0;
    gemms.run(ones.gemm(), kernel, hopper.device().context());
    hopper.device().synchronize();
    CHECK(ones.right());
    CHECK(runs_of_kernel == 1);
    CHECK(fake_cublas_lt_runs_of(fake_plain) == library);

    // Another GPU has no such kernel.
    DeviceProperties ampere = hopper.device().properties;
    ampere.major = 8;
    TuningTable of_ampere;
    Gemms without(ampere, &of_ampere);
    CHECK(without.use_table(table));
    without.run(ones.gemm(), no_kernel, hopper.device().context());
    CHECK(fake_cublas_lt_runs_of(fake_plain) == library + 1);
}

TEST_CASE("a kernel for sm_90a whose results differ from the library's is not chosen", "[gemms]") {
    Hopper hopper;
    CHECK_FALSE(contains(hopper.tuned(20, tunes_sm90, kernel_that_does_nothing), " sm90:"));
}

TEST_CASE("results of a GEMM that differ are told from those that are rounded otherwise",
          "[gemms]") {
    Hopper hopper;
    const Stream stream;
    const Ones ones;
    const Gemm gemm = ones.gemm();
    auto* y = reinterpret_cast<Bf16*>(gemm.c.data);
    // Work of the stream, as kernels are.
    const auto all = [&](float value) {
        return [=, &stream] { stream.issue([=] { std::fill(y, y + 64, to_bf16(value)); }); };
    };
    const auto difference = [&](const std::function<void()>& other) {
        return result_difference(gemm, all(8), other, stream);
    };
    CHECK(difference(all(8)).empty());
    CHECK(difference(all(8.0625f)).empty());
    CHECK(difference(all(8.25f)) == "c[0, 0] is 8.25 instead of 8");
    CHECK_FALSE(difference(all(std::numeric_limits<float>::quiet_NaN())).empty());
    CHECK_FALSE(difference(all(std::numeric_limits<float>::infinity())).empty());
    // The last row is compared as well.
    CHECK(contains(difference([&] {
                       all(8)();
                       stream.issue([=] { y[63] = to_bf16(7); });
                   }),
                   "c[7, 7] is 7"));
}

}  // namespace
}  // namespace gptrain::cuda
