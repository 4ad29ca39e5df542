// How GEMMs are chosen, over the library in fake_cublas_lt.cpp and the emulator's device. The op
// cases, over the same, show that they are right.
#include "cuda/gemm/gemms.h"

#include <cublasLt.h>
#include <vector>

#include "catch.h"
#include "cuda/fake_cublas_lt.h"
#include "cuda/gemm/tuning.h"
#include "cuda/ops/linear.h"
#include "emulator/grid.h"
#include "emulator/memory.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

using test::contains;
using test::contents;
using test::TempFolder;

/// Owns an fp32 matrix.
class Numbers {
public:
    Numbers(std::int64_t rows, std::int64_t cols, float value)
        : values_(static_cast<std::size_t>(rows * cols), value),
          tensor_(reinterpret_cast<std::byte*>(values_.data()), DType::f32, {rows, cols}) {}
    Matrix matrix() const { return Matrix(tensor_); }
    bool all(float value) const {
        return std::all_of(values_.begin(), values_.end(), [=](float x) { return x == value; });
    }

private:
    std::vector<float> values_;
    Tensor tensor_;
};

/// a b, where a and b hold 2, added to 1: 1 + 4 K.
struct Sum {
    Numbers a{3, 5, 2};
    Numbers b{5, 4, 2};
    Numbers c{3, 4, 1};
    Gemm gemm() const {
        return {.a = a.matrix(), .b = b.matrix(), .c = c.matrix(), .accumulate = true};
    }
};

class Device {
public:
    Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device() { release(memory_, MemorySpace::device); }

    OpContext context(bool deterministic = true) {
        scratch_.reset();
        return {.stream = stream_,
                .scratch = scratch_,
                .device = properties,
                .deterministic = deterministic};
    }
    void synchronize() const { stream_.synchronize(); }
    DeviceProperties properties = open_device(0);

private:
    /// With room for the sums of a separate epilogue.
    static constexpr std::int64_t scratch_bytes = Gemms::workspace_bytes + (1 << 12);
    Stream stream_;
    std::byte* memory_ = allocate(scratch_bytes, MemorySpace::device);
    Scratch scratch_{memory_, scratch_bytes};
};

constexpr std::string_view first_choice = "0000000000000001";
constexpr std::string_view fastest = "0000000000000003";

/// How often the library has run a GEMM.
std::int64_t runs() {
    return fake_cublas_lt_runs(fake_slow) + fake_cublas_lt_runs(fake_refused) +
           fake_cublas_lt_runs(fake_fast);
}

/// Tunes with a table kept in a file; returns the file's contents.
std::string tuned(const std::filesystem::path& file, Device& device) {
    TuningTable table(file);
    Gemms gemms(device.properties, &table);
    const Sum scratch;
    gemms.tune([&] { gemms.multiply(scratch.gemm(), device.context()); });
    return contents(file);
}

/// True if the GEMM is right and this algorithm computed it.
bool computes_by(FakeAlgorithm algorithm, Gemms& gemms, Device& device) {
    const Sum sum;
    const std::int64_t all = runs();
    const std::int64_t wanted = fake_cublas_lt_runs(algorithm);
    gemms.multiply(sum.gemm(), device.context());
    return sum.c.all(21) && runs() == all + 1 && fake_cublas_lt_runs(algorithm) == wanted + 1;
}

TEST_CASE("tuning takes the fastest algorithm, and GEMMs do so afterwards", "[gemms]") {
    const TempFolder folder;
    Device device;
    const auto file = folder / "products.txt";
    CHECK(contains(tuned(file, device), " " + std::string(fastest)));
    TuningTable table(file);
    Gemms gemms(device.properties, &table);
    CHECK(computes_by(fake_fast, gemms, device));
}

TEST_CASE("what the tuning table holds is not timed, unless the library cannot run it", "[gemms]") {
    const TempFolder folder;
    const auto file = folder / "products.txt";
    Device device;
    const auto replaced = [](std::string text, std::string_view from, std::string_view to) {
        return text.replace(text.find(from), from.size(), to);
    };
    const std::string found = tuned(file, device);
    const std::string other = replaced(found, fastest, first_choice);
    test::fill(file, other);
    const std::int64_t before = runs();
    CHECK(tuned(file, device) == other);
    CHECK(runs() == before);
    test::fill(file, replaced(found, fastest, "0000000000000009"));
    CHECK(tuned(file, device) == found);
    CHECK(runs() > before);
}

TEST_CASE("another GPU tunes anew", "[gemms]") {
    const TempFolder folder;
    const auto file = folder / "products.txt";
    Device device;
    const std::string found = tuned(file, device);
    CHECK(contains(found, "emulated device"));
    device.properties.name = "another GPU";
    const std::int64_t before = runs();
    CHECK(contains(tuned(file, device), "another GPU"));
    CHECK(runs() > before);
}

TEST_CASE("without an entry the library's first choice is taken, and nothing is timed", "[gemms]") {
    Device device;
    TuningTable table;
    Gemms gemms(device.properties, &table);
    CHECK(computes_by(fake_slow, gemms, device));
    Gemms without_table(device.properties, nullptr);
    CHECK(computes_by(fake_slow, without_table, device));
}

TEST_CASE("GEMMs take another rank's table, but not another machine's", "[gemms]") {
    const TempFolder folder;
    Device device;
    const std::string found = tuned(folder / "products.txt", device);
    TuningTable table;
    Gemms gemms(device.properties, &table);
    CHECK(computes_by(fake_slow, gemms, device));
    CHECK(gemms.use_table(found));
    CHECK(computes_by(fake_fast, gemms, device));
    device.properties.name = "another GPU";
    TuningTable other_table;
    Gemms other(device.properties, &other_table);
    CHECK(!other.use_table(found));
    CHECK(computes_by(fake_slow, other, device));
}

/// Owns a bf16 matrix [8, 8] in memory that kernels may access.
class Eight {
public:
    explicit Eight(float value = 0) {
        for (std::int64_t i = 0; i < 64; ++i)
            set(i, value);
    }
    Eight(const Eight&) = delete;
    Eight& operator=(const Eight&) = delete;
    ~Eight() { release(data_, MemorySpace::device); }

    void set(std::int64_t i, float value) const { tensor().as<Bf16>()[i] = to_bf16(value); }
    Tensor tensor() const { return {data_, DType::bf16, {8, 8}}; }
    Tensor row() const { return {data_, DType::bf16, {8}}; }
    bool all(float value) const {
        const Bf16* numbers = tensor().as<Bf16>();
        return std::all_of(numbers, numbers + 64,
                           [=](Bf16 number) { return to_float(number) == value; });
    }

private:
    std::byte* data_ = allocate(128, MemorySpace::device);
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

/// Ops whose GEMMs have an epilogue. All sums are 1 + 2^-9, which bf16 stores as 1.
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
        device.synchronize();
    }
    /// 1 + 2^-9 + 2^-8 rounds to 1 + 2^-7, but 1 + 2^-8 rounds to 1. The slope of gelu at 0 is 1/2.
    bool right() const { return y_.all(1 + 0x1p-7f) && dx_.all(0.5f); }

private:
    Eight x_;
    Eight weight_{1};
    Eight bias_{0x1p-8f};
    Eight gelu_input_;
    Eight y_;
    Eight dx_;
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
    const auto file = folder / "products.txt";
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
    CHECK(runs_in([&] { ops.run(gemms, device); }) == (apart ? Runs{2, 0} : Runs{0, 2}));
    CHECK(fake_cublas_lt_runs(fake_fast) == fast + 2);
    CHECK(ops.right());
}

TEST_CASE("without an entry an epilogue stays in its GEMM", "[gemms]") {
    Device device;
    TuningTable table;
    Gemms gemms(device.properties, GENERATE(true, false) ? &table : nullptr);
    const EpilogueOps ops;
    CHECK(runs_in([&] { ops.run(gemms, device); }) == Runs{0, 2});
    CHECK(ops.right());
}

/// During its lifetime the library answers so.
class Answer {
public:
    Answer(FakeCall call, FakeKind kind, cublasStatus_t status) : call_(call), kind_(kind) {
        fake_cublas_lt_answer(call, kind, status);
    }
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;
    ~Answer() { fake_cublas_lt_answer(call_, kind_, CUBLAS_STATUS_SUCCESS); }

private:
    FakeCall call_;
    FakeKind kind_;
};

TEST_CASE("an epilogue that the library declines is done apart, tuned or not", "[gemms]") {
    const auto status = GENERATE(CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_ARCH_MISMATCH,
                                 CUBLAS_STATUS_INVALID_VALUE);
    const auto call = GENERATE(fake_heuristic, fake_matmul);
    const bool tuned = GENERATE(true, false);
    CAPTURE(status, call, tuned);
    const Answer declined(call, fake_with_epilogue, status);
    Device device;
    TuningTable table;
    Gemms gemms(device.properties, &table);
    const EpilogueOps ops;
    if (tuned) gemms.tune([&] { ops.run(gemms, device); });
    CHECK(runs_in([&] { ops.run(gemms, device); }) == Runs{2, 0});
    CHECK(ops.right());
}

TEST_CASE("a choice that the library declines is followed by its next one", "[gemms]") {
    Device device;
    Gemms gemms(device.properties, nullptr);
    const Sum sum;
    fake_cublas_lt_refuse_slow(true);
    gemms.multiply(sum.gemm(), device.context());
    fake_cublas_lt_refuse_slow(false);
    CHECK(sum.c.all(21));
    // It stays.
    CHECK(computes_by(fake_fast, gemms, device));
}

TEST_CASE("a GEMM that the library cannot do at all is an error that names it", "[gemms]") {
    const auto call = GENERATE(fake_heuristic, fake_matmul);
    const bool tuned = GENERATE(true, false);
    CAPTURE(call, tuned);
    const Answer declined(call, fake_plain, CUBLAS_STATUS_INVALID_VALUE);
    Device device;
    TuningTable table;
    Gemms gemms(device.properties, &table);
    const Sum sum;
    const auto multiply = [&] { gemms.multiply(sum.gemm(), device.context()); };
    CHECK(contains(
        test::message_of(ExitCode::usage, [&] { tuned ? gemms.tune(multiply) : multiply(); }),
        "cuBLASLt has no algorithm on this GPU for a GEMM of 3 x 5 x 4 in fp32"));
}

TEST_CASE("a fault of the library is no refusal", "[gemms]") {
    const Answer fault(fake_matmul, fake_plain, CUBLAS_STATUS_EXECUTION_FAILED);
    Device device;
    Gemms gemms(device.properties, nullptr);
    const Sum sum;
    CHECK(contains(
        test::message_of(ExitCode::bug, [&] { gemms.multiply(sum.gemm(), device.context()); }),
        "cublasLtMatmul: fault"));
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

TEST_CASE("an FP8 GEMM that the library does not support says why", "[gemms]") {
    Device device;
    Gemms gemms(device.properties, nullptr);
    Numbers memory(8, 8, 0);
    Matrix eight = memory.matrix();
    eight.dtype = DType::f8e4m3;
    const Gemm gemm = {.a = eight, .b = eight, .c = memory.matrix()};
    CHECK(
        contains(test::message_of(ExitCode::usage, [&] { gemms.multiply(gemm, device.context()); }),
                 "fp8 needs compute capability 8.9"));
}

}  // namespace
}  // namespace gptrain::cuda
