// When tuning gives a GEMM to our kernel for sm_90a; over the library in fake_cublas_lt.cpp and the
// emulator's device.
#include <algorithm>
#include <chrono>
#include <cublasLt.h>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "catch.h"
#include "cuda/fake_cublas_lt.h"
#include "cuda/gemm/agreement.h"
#include "cuda/gemm/gemms.h"
#include "cuda/gemm/sm90/gemm.h"
#include "cuda/gemm/sm90/grouped.h"
#include "cuda/gemm/tuning.h"
#include "cuda/gemm_operands.h"
#include "emulator/grid.h"
#include "emulator/memory.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

using test::contains;

/// y = x w^T of 8 x 8 ones, in memory that kernels may access.
class Ones : Operands {
public:
    Gemm gemm() const {
        return {.a = Matrix(x_), .b = Matrix(weight_).transposed(), .c = Matrix(y_)};
    }
    void clear() const { std::fill(y(), y() + 64, to_bf16(0)); }
    bool right() const {
        return std::all_of(y(), y() + 64, [](Bf16 each) { return to_float(each) == 8; });
    }

private:
    Bf16* y() const { return y_.as<Bf16>(); }
    Tensor x_ = filled(DType::bf16, {8, 8}, to_bf16(1));
    Tensor weight_ = filled(DType::bf16, {8, 8}, to_bf16(1));
    Tensor y_ = make(DType::bf16, {8, 8});
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
    EmulatedHopper settings_;
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

TEST_CASE("a GEMM that the library declines is not given to the kernel for sm_90a", "[gemms]") {
    Hopper hopper;
    const Answer declines(fake_heuristic, fake_plain, CUBLAS_STATUS_NOT_SUPPORTED);
    CHECK(contains(
        test::message_of(ExitCode::usage, [&] { hopper.tuned(0, tunes_sm90, fast_kernel); }),
        "no algorithm on this GPU for a GEMM of 8 x 8 x 8 in bf16"));
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
    // Fast sums of FP8 have fewer bits.
    Gemm fast = gemm;
    fast.a.dtype = DType::f8e4m3;
    fast.fast_accumulation = true;
    CHECK_FALSE(difference(all(8.1875f)).empty());
    CHECK(result_difference(fast, all(8), all(8.1875f), stream).empty());
    CHECK_FALSE(difference(all(std::numeric_limits<float>::quiet_NaN())).empty());
    CHECK_FALSE(difference(all(std::numeric_limits<float>::infinity())).empty());
    // The c of a gradient through SwiGLU is memory alone.
    Gemm through_swiglu = gemm;
    through_swiglu.c = gemm.a;
    through_swiglu.swiglu_input = through_swiglu.swiglu_grad = gemm.c;
    CHECK(result_difference(through_swiglu, all(8), all(8), stream).empty());
    CHECK_FALSE(result_difference(through_swiglu, all(8), all(8.25f), stream).empty());
    // The last row is compared as well.
    CHECK(contains(difference([&] {
                       all(8)();
                       stream.issue([=] { y[63] = to_bf16(7); });
                   }),
                   "c[7, 7] is 7"));
}

/// The gradients of an 8 x 8 weight and its bias: all are 8.
class Gradients : Operands {
public:
    Gemm gemm() const {
        return {.a = Matrix(dy_).transposed(),
                .b = Matrix(x_),
                .c = Matrix(dweight_),
                .a_sums = sums_.as<float>(),
                .a_totals = dbias_.as<float>()};
    }

private:
    Tensor dy_ = filled(DType::bf16, {8, 8}, to_bf16(1));
    Tensor x_ = filled(DType::bf16, {8, 8}, to_bf16(1));
    Tensor dweight_ = make(DType::f32, {8, 8});
    Tensor sums_ = make(DType::f32, {8});
    Tensor dbias_ = make(DType::f32, {8});
};

/// The sums of a row in our kernel, and how many milliseconds they take there or apart.
float sum_of_row = 8;
std::int64_t time_in_gemm = 0;
std::int64_t time_apart = 0;

void gradient_kernel(const GemmPart& part, const OpContext& context) {
    using enum GemmPart::Kind;
    const Gemm& gemm = part.gemm;
    if (part.kind == sm90) {
        auto* c = reinterpret_cast<float*>(gemm.c.data);
        context.stream.issue([c] { std::fill(c, c + 64, 8.0f); });
    }
    if (gemm.a_totals == nullptr) return;
    const std::int64_t time = part.kind == sm90       ? time_in_gemm
                              : part.kind == row_sums ? time_apart
                                                      : 0;
    const float sum = part.kind == sm90 ? sum_of_row : 8;
    context.stream.issue([totals = gemm.a_totals, time, sum] {
        std::this_thread::sleep_for(std::chrono::milliseconds(time));
        for (int i = 0; i < 8; ++i)
            totals[i] += sum;
    });
}

TEST_CASE("tuning lets the kernel for sm_90a sum a bias gradient where that is faster", "[gemms]") {
    Hopper hopper;
    const Gradients gradients;
    const auto tuned = [&](std::int64_t in_gemm, std::int64_t apart, float sum = 8) {
        time_in_gemm = in_gemm;
        time_apart = apart;
        sum_of_row = sum;
        TuningTable table;
        Gemms gemms(hopper.device().properties, &table, tunes_sm90);
        for (const auto kind : {fake_plain, fake_with_epilogue})
            fake_cublas_lt_delay(kind, 20);
        gemms.tune(
            [&] { gemms.run(gradients.gemm(), gradient_kernel, hopper.device().context()); });
        for (const auto kind : {fake_plain, fake_with_epilogue})
            fake_cublas_lt_delay(kind, 0);
        hopper.device().synchronize();
        return table.to_text();
    };
    CHECK(contains(tuned(0, 5), " sm90:1+sums\nentries"));
    CHECK(contains(tuned(5, 0), " sm90:1\nentries"));
    CHECK_FALSE(contains(tuned(0, 5, 8.25f), " sm90:"));
}

/// y = x w^T of 8 rows of ones, half of them of each of two experts.
class OnesOfExperts : Operands {
public:
    OnesOfExperts() {
        for (int e = 0; e < 3; ++e)
            offsets_.as<std::int32_t>()[e] = 4 * e;
    }
    GroupedGemm gemm() const { return {.a = x_, .b = weight_, .c = y_, .offsets = offsets_}; }

private:
    Tensor x_ = filled(DType::bf16, {8, 8}, to_bf16(1));
    Tensor weight_ = filled(DType::bf16, {1, 2, 8, 8}, to_bf16(1));
    Tensor y_ = make(DType::bf16, {8, 8});
    Tensor offsets_ = make(DType::i32, {3});
};

int runs_anywhere = 0;
int runs_on_sm90 = 0;

void store_in_y(const GroupedGemm& gemm, const OpContext& context, float value) {
    context.stream.issue([y = gemm.c.as<Bf16>(), value] { std::fill(y, y + 64, to_bf16(value)); });
}
void anywhere(const GroupedGemm& gemm, const OpContext& context) {
    ++runs_anywhere;
    store_in_y(gemm, context, 8);
    context.stream.issue([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
}
void grouped_on_sm90(const GroupedGemm& gemm, const OpContext& context) {
    ++runs_on_sm90;
    sm90::multiply(gemm, context);
}
void fast_on_sm90(const GroupedGemm& gemm, const OpContext& context) {
    store_in_y(gemm, context, 8);
}
void slow_on_sm90(const GroupedGemm& gemm, const OpContext& context) {
    anywhere(gemm, context);
    anywhere(gemm, context);
}
void wrong_on_sm90(const GroupedGemm& gemm, const OpContext& context) {
    store_in_y(gemm, context, 9);
}

TEST_CASE("tuning gives grouped GEMMs to our kernel for sm_90a where it may, and it is faster",
          "[gemms]") {
    Hopper hopper;
    const OnesOfExperts ones;
    const auto tuned = [&](decltype(GroupedKernels::sm90) ours, bool with_sm90 = true) {
        TuningTable table;
        Gemms gemms(hopper.device().properties, &table, with_sm90);
        gemms.tune([&] {
            gemms.run(ones.gemm(), {.anywhere = anywhere, .sm90 = ours}, hopper.device().context());
        });
        hopper.device().synchronize();
        return table.to_text();
    };
    CHECK(contains(tuned(fast_on_sm90, false), "\nentries 0\n"));
    CHECK(contains(tuned(slow_on_sm90), "apart\nentries 1\n"));
    CHECK(contains(tuned(wrong_on_sm90), "apart\nentries 1\n"));
    const std::string table = tuned(fast_on_sm90);
    CHECK(contains(table, "\n" + key_of(ones.gemm()) + " sm90:1\nentries 1\n"));

    // The table alone decides afterwards, on a GPU that has the kernel.
    DeviceProperties ampere = hopper.device().properties;
    ampere.major = 8;
    for (const DeviceProperties& device : {hopper.device().properties, ampere}) {
        const bool has_sm90 = device.major == 9;
        TuningTable other;
        Gemms gemms(device, &other);
        CHECK(gemms.use_table(table));
        runs_anywhere = runs_on_sm90 = 0;
        gemms.run(ones.gemm(), {.anywhere = anywhere, .sm90 = grouped_on_sm90},
                  hopper.device().context());
        hopper.device().synchronize();
        CHECK(runs_on_sm90 == (has_sm90 ? 1 : 0));
        CHECK(runs_anywhere == (has_sm90 ? 0 : 1));
        const auto* y = ones.gemm().c.as<Bf16>();
        CHECK(std::all_of(y, y + 64, [](Bf16 each) { return to_float(each) == 8; }));
    }
}

}  // namespace
}  // namespace gptrain::cuda
