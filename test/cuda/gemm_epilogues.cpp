// When the library computes the epilogue of a GEMM, and when it is done apart; over the library in
// fake_cublas_lt.cpp and the emulator's device.
#include <cublasLt.h>
#include <functional>
#include <string>

#include "catch.h"
#include "cuda/fake_cublas_lt.h"
#include "cuda/gemm/gemms.h"
#include "cuda/gemm/tuning.h"
#include "cuda/gemm_operands.h"
#include "cuda/ops/linear.h"
#include "emulator/grid.h"
#include "emulator/memory.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

using test::contains;
using test::contents;
using test::TempFolder;

/// Owns a matrix [8, 8], bf16 or fp32, in memory that kernels may access.
class Eight {
public:
    explicit Eight(float value = 0, DType dtype = DType::bf16) : dtype_(dtype) { fill(value); }
    Eight(const Eight&) = delete;
    Eight& operator=(const Eight&) = delete;
    ~Eight() { release(data_, MemorySpace::device); }

    void set(std::int64_t i, float value) const {
        if (dtype_ == DType::f32) {
            tensor().as<float>()[i] = value;
        } else {
            tensor().as<Bf16>()[i] = to_bf16(value);
        }
    }
    void fill(float value) const {
        for (std::int64_t i = 0; i < room; ++i)
            set(i, value);
    }
    float at(std::int64_t i) const {
        return dtype_ == DType::f32 ? tensor().as<float>()[i] : to_float(tensor().as<Bf16>()[i]);
    }
    Tensor tensor() const { return {data_, dtype_, {8, 8}}; }
    /// A tensor of another shape, with at most as many elements as there is room for.
    Tensor tensor(const Shape& shape) const { return {data_, dtype_, shape}; }
    Tensor row() const { return {data_, dtype_, {8}}; }
    bool all(float value, std::int64_t count = 64) const {
        for (std::int64_t i = 0; i < count; ++i) {
            if (at(i) != value) return false;
        }
        return true;
    }

private:
    static constexpr std::int64_t room = 96;
    DType dtype_;
    std::byte* data_ = allocate(room * 4, MemorySpace::device);
};

TEST_CASE("only where bits may differ the library does the gelu, on sums that are not rounded",
          "[gemms]") {
    emulator::settings().major = 9;
    Device device;
    Gemms gemms(device.properties, nullptr);
    // Every sum is 1 + 2^-9, which bf16 stores as 1.
    const Eight x;
    const Eight weight(1);
    for (std::int64_t row = 0; row < 8; ++row) {
        x.set(8 * row, 1);
        x.set(8 * row + 1, 0x1p-9f);
    }
    const Eight y;
    const Eight gelu;
    const LinearForward args = {.x = x.tensor(),
                                .weight = weight.tensor(),
                                .bias = {},
                                .y = y.tensor(),
                                .gelu = gelu.tensor()};
    cuda::run(args, gemms, device.context());
    device.synchronize();
    CHECK(y.all(1));
    // gelu(1) = 0.84119 rounds to 215 / 256, gelu(1 + 2^-9) = 0.84331 to 216 / 256.
    CHECK(gelu.all(215.0f / 256));
    constexpr bool deterministic = false;
    cuda::run(args, gemms, device.context(deterministic));
    device.synchronize();
    CHECK(y.all(1));
    CHECK(gelu.all(216.0f / 256));
}

/// Ops whose GEMMs have an epilogue. All sums over x are 1 + 2^-9, which bf16 stores as 1.
class EpilogueOps {
public:
    EpilogueOps() {
        for (std::int64_t row = 0; row < 8; ++row) {
            x_.set(8 * row, 1);
            x_.set(8 * row + 1, 0x1p-9f);
        }
    }

    void run(Gemms& gemms, Device& device) const {
        cuda::run(LinearForward{.x = x_.tensor(),
                                .weight = weight_.tensor(),
                                .bias = bias_.row(),
                                .y = y_.tensor()},
                  gemms, device.context());
        cuda::run(LinearInputGrad{.dy = x_.tensor(),
                                  .weight = weight_.tensor(),
                                  .gelu_input = gelu_input_.tensor(),
                                  .dx = dx_.tensor()},
                  gemms, device.context());
        dweight_.fill(1);
        dbias_.fill(1);
        cuda::run(LinearWeightGrad{.x = weight_.tensor(),
                                   .dy = x_.tensor(),
                                   .dweight = dweight_.tensor(),
                                   .dbias = dbias_.row()},
                  gemms, device.context());
        device.synchronize();
    }
    /// 1 + 2^-9 + 2^-8 rounds to 1 + 2^-7, but 1 + 2^-8 rounds to 1. The slope of gelu at 0 is 1/2.
    /// Gradients are added to 1: the sum of column i of x to dbias[i] and to all of row i of
    /// dweight.
    bool right() const {
        for (std::int64_t i = 0; i < 8; ++i) {
            const float sum = 1 + (i == 0 ? 8 : i == 1 ? 0x1p-6f : 0);
            if (dbias_.at(i) != sum || dweight_.at(8 * i) != sum || dweight_.at(8 * i + 7) != sum)
                return false;
        }
        return y_.all(1 + 0x1p-7f) && dx_.all(0.5f);
    }

private:
    Eight x_;
    Eight weight_{1};
    Eight bias_{0x1p-8f};
    Eight gelu_input_;
    Eight y_;
    Eight dx_;
    Eight dweight_{0, DType::f32};
    Eight dbias_{0, DType::f32};
};

/// During its lifetime, GEMMs of this kind take far longer than anything else.
class Delay {
public:
    explicit Delay(FakeKind kind) : kind_(kind) { fake_cublas_lt_delay(kind, 50); }
    Delay(const Delay&) = delete;
    Delay& operator=(const Delay&) = delete;
    ~Delay() { fake_cublas_lt_delay(kind_, 0); }

private:
    FakeKind kind_;
};

/// How many GEMMs the library runs during `work`.
struct Runs {
    std::int64_t plain;
    std::int64_t with_epilogue;
    bool operator==(const Runs&) const = default;
};

Runs runs_in(const std::function<void()>& work) {
    const std::int64_t plain = fake_cublas_lt_runs_of(fake_plain);
    const std::int64_t with_epilogue = fake_cublas_lt_runs_of(fake_with_epilogue);
    work();
    return {fake_cublas_lt_runs_of(fake_plain) - plain,
            fake_cublas_lt_runs_of(fake_with_epilogue) - with_epilogue};
}

TEST_CASE("tuning does an epilogue apart where that is faster, and GEMMs do so afterwards",
          "[gemms]") {
    const bool apart = GENERATE(true, false);
    const Delay delay(apart ? fake_with_epilogue : fake_plain);
    const TempFolder folder;
    const auto file = folder / "gemms.txt";
    Device device;
    const EpilogueOps ops;
    const auto tune = [&] {
        TuningTable table(file);
        Gemms gemms(device.properties, &table);
        gemms.tune([&] { ops.run(gemms, device); });
    };
    tune();
    const std::string found = contents(file);
    CHECK(contains(found, " apart\n") == apart);
    // Another start reads the table from the file, and another rank takes it over.
    CHECK(runs_in(tune) == Runs{0, 0});
    CHECK(contents(file) == found);
    TuningTable table;
    Gemms gemms(device.properties, &table);
    CHECK(gemms.use_table(found));
    const std::int64_t fast = fake_cublas_lt_runs(fake_fast);
    CHECK(runs_in([&] { ops.run(gemms, device); }) == (apart ? Runs{3, 0} : Runs{0, 3}));
    CHECK(fake_cublas_lt_runs(fake_fast) == fast + 3);
    CHECK(ops.right());
}

TEST_CASE("without an entry an epilogue stays in its GEMM", "[gemms]") {
    Device device;
    TuningTable table;
    Gemms gemms(device.properties, GENERATE(true, false) ? &table : nullptr);
    const EpilogueOps ops;
    CHECK(runs_in([&] { ops.run(gemms, device); }) == Runs{0, 3});
    CHECK(ops.right());
}

TEST_CASE("a GEMM of 16 bits is divided where a size is no multiple of 8", "[gemms]") {
    Device device;
    Gemms gemms(device.properties, nullptr);
    const Eight x(1), twelve(1), y, dx;
    const Eight dweight(0, DType::f32);
    const Tensor rows = twelve.tensor({12, 8});
    CHECK(
        runs_in([&] {
            cuda::run(
                LinearForward{.x = x.tensor(), .weight = rows, .bias = {}, .y = y.tensor({8, 12})},
                gemms, device.context());
        }) == Runs{2, 0});
    CHECK(runs_in([&] {
              cuda::run(LinearInputGrad{.dy = twelve.tensor({8, 12}),
                                        .weight = rows,
                                        .gelu_input = {},
                                        .dx = dx.tensor()},
                        gemms, device.context());
          }) == Runs{2, 0});
    CHECK(runs_in([&] {
              cuda::run(LinearWeightGrad{.x = x.tensor(),
                                         .dy = twelve.tensor({8, 12}),
                                         .dweight = dweight.tensor({12, 8}),
                                         .dbias = {}},
                        gemms, device.context());
          }) == Runs{2, 0});
    device.synchronize();
    CHECK(y.all(8, 96));
    CHECK(dx.all(12));
    CHECK(dweight.all(8, 96));
}

TEST_CASE("an epilogue that the library declines is done apart, tuned or not", "[gemms]") {
    const auto status = GENERATE(CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_ARCH_MISMATCH,
                                 CUBLAS_STATUS_INVALID_VALUE);
    const auto call = GENERATE(fake_desc_set, fake_heuristic, fake_matmul);
    const bool tuned = GENERATE(true, false);
    CAPTURE(status, call, tuned);
    const Answer declined(call, fake_with_epilogue, status);
    Device device;
    TuningTable table;
    Gemms gemms(device.properties, &table);
    const EpilogueOps ops;
    if (tuned) gemms.tune([&] { ops.run(gemms, device); });
    CHECK(runs_in([&] { ops.run(gemms, device); }) == Runs{3, 0});
    CHECK(ops.right());
}

TEST_CASE("addresses that the library declines later separate an epilogue too", "[gemms]") {
    Device device;
    Gemms gemms(device.properties, nullptr);
    const EpilogueOps ops;
    CHECK(runs_in([&] { ops.run(gemms, device); }) == Runs{0, 3});
    const Answer declined(fake_desc_set, fake_with_epilogue, CUBLAS_STATUS_INVALID_VALUE);
    CHECK(runs_in([&] { ops.run(gemms, device); }) == Runs{3, 0});
    CHECK(ops.right());
}

TEST_CASE("the library sums rows for a bias gradient in fp32, and so not those of FP8 operands",
          "[gemms]") {
    const DType dtype = GENERATE(DType::f32, DType::bf16, DType::f16, DType::f8e4m3);
    CAPTURE(name_of(dtype));
    Device device;
    Gemms gemms(device.properties, nullptr);
    // All zeros, in every dtype.
    std::vector<std::byte> zeros(16 * 16 * 4);
    alignas(16) const float scale = 1;
    Matrix a(Tensor(zeros.data(), dtype, {16, 16}));
    if (a.is_fp8()) a.scale = &scale;
    const Numbers c(16, 16, 1);
    std::vector<float> sums(16, 7);
    const Gemm gemm = {.a = a,
                       .b = a.transposed(),
                       .c = c.matrix(),
                       .a_sums = sums.data(),
                       .a_totals = sums.data()};
    static GemmPart::Kind kernel;
    gemms.run(
        gemm, [](const GemmPart& part, const OpContext&) { kernel = part.kind; }, device.context());
    CHECK(kernel == (a.is_fp8() ? GemmPart::Kind::row_sums : GemmPart::Kind::add_sums));
    CHECK(sums == std::vector<float>(16, a.is_fp8() ? 7.0f : 0.0f));
}

/// The tuning table of a run whose GEMM has a GELU epilogue, or none.
std::string tuned_forward(bool with_gelu, bool deterministic, Device& device) {
    const Eight x(1);
    const Eight weight(1);
    const Eight y;
    const Eight gelu;
    TuningTable table;
    Gemms gemms(device.properties, &table);
    gemms.tune([&] {
        cuda::run(LinearForward{.x = x.tensor(),
                                .weight = weight.tensor(),
                                .bias = {},
                                .y = y.tensor(),
                                .gelu = with_gelu ? gelu.tensor() : Tensor()},
                  gemms, device.context(deterministic));
    });
    device.synchronize();
    return table.to_text();
}

TEST_CASE("a gelu behind a GEMM is tuned with it only where bits may differ", "[gemms]") {
    emulator::settings().major = 9;
    Device device;
    const std::string without = tuned_forward(false, true, device);
    CHECK(contains(without, "entries 1\n"));
    CHECK(tuned_forward(true, true, device) == without);
    CHECK(tuned_forward(false, false, device) == without);
    // The GEMM alone is tuned as well, for the comparison.
    const std::string with = tuned_forward(true, false, device);
    CHECK(contains(with, "entries 2\n"));
    const std::size_t entry = without.find('\n');
    CHECK(contains(with, without.substr(entry, without.find("entries") - entry)));
    const Delay delay(fake_with_epilogue);
    CHECK(contains(tuned_forward(true, false, device), " apart\n"));
}

TEST_CASE("a table without bias gradients keeps its entries when they are tuned", "[gemms]") {
    const TempFolder folder;
    const auto file = folder / "gemms.txt";
    Device device;
    const Eight x(1);
    const Eight dweight(0, DType::f32);
    const Eight dbias(0, DType::f32);
    const auto tuned = [&](const Tensor& sums) {
        TuningTable table(file);
        Gemms gemms(device.properties, &table);
        gemms.tune([&] {
            cuda::run(
                LinearWeightGrad{
                    .x = x.tensor(), .dy = x.tensor(), .dweight = dweight.tensor(), .dbias = sums},
                gemms, device.context());
        });
        device.synchronize();
        return contents(file);
    };
    const std::string without = tuned({});
    CHECK(contains(without, "entries 1\n"));
    const std::string with = tuned(dbias.row());
    CHECK(contains(with, "entries 2\n"));
    const std::size_t entry = without.find('\n');
    CHECK(contains(with, without.substr(entry, without.find("entries") - entry)));
}

}  // namespace
}  // namespace gptrain::cuda
