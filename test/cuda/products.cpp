// How products are chosen, over the library in fake_cublas_lt.cpp and the emulator's device. That
// they are right is shown by the op cases over the same.
#include "cuda/products.h"

#include <vector>

#include "catch.h"
#include "cuda/linear.h"
#include "cuda/tuning.h"
#include "emulator/grid.h"
#include "emulator/memory.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

using test::contains;
using test::contents;
using test::TempFolder;

/// Owns a matrix of fp32 numbers.
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

/// a b with a and b of twos, added to ones: 1 + 4 K.
struct Sum {
    Numbers a{3, 5, 2};
    Numbers b{5, 4, 2};
    Numbers c{3, 4, 1};
    Product product() const {
        return {.a = a.matrix(), .b = b.matrix(), .c = c.matrix(), .accumulate = true};
    }
};

class Device {
public:
    OpContext context(bool deterministic = true) {
        scratch_.reset();
        return {.stream = stream_,
                .scratch = scratch_,
                .device = facts,
                .deterministic = deterministic};
    }
    void synchronize() const { stream_.synchronize(); }
    DeviceFacts facts = open_device(0);

private:
    Stream stream_;
    std::vector<std::byte> memory_ = std::vector<std::byte>(Products::workspace_bytes);
    Scratch scratch_{memory_.data(), Products::workspace_bytes};
};

constexpr std::string_view first_choice = "0000000000000001";
constexpr std::string_view fastest = "0000000000000003";

TEST_CASE("timing takes the fastest algorithm and adds to a sum only once", "[products]") {
    const TempFolder folder;
    Device device;
    TuningTable table(folder / "products.txt");
    Products products(device.facts, &table);
    const Sum sum;
    products.multiply(sum.product(), device.context());
    CHECK(sum.c.all(21));
    products.multiply(sum.product(), device.context());
    CHECK(sum.c.all(41));
    CHECK(contains(contents(folder / "products.txt"), " " + std::string(fastest)));
}

TEST_CASE("what the tuning table holds is taken, unless the library cannot run it", "[products]") {
    const TempFolder folder;
    const auto file = folder / "products.txt";
    Device device;
    const auto run = [&] {
        TuningTable table(file);
        Products products(device.facts, &table);
        const Sum sum;
        products.multiply(sum.product(), device.context());
        CHECK(sum.c.all(21));
        return contents(file);
    };
    const auto replaced = [](std::string text, std::string_view from, std::string_view to) {
        return text.replace(text.find(from), from.size(), to);
    };
    const std::string found = run();
    const std::string other = replaced(found, fastest, first_choice);
    test::fill(file, other);
    CHECK(run() == other);
    test::fill(file, replaced(found, fastest, "0000000000000009"));
    CHECK(run() == found);
}

TEST_CASE("without tuning the library's first choice is taken", "[products]") {
    Device device;
    Products products(device.facts, nullptr);
    const Sum sum;
    products.multiply(sum.product(), device.context());
    CHECK(sum.c.all(21));
}

/// Owns a matrix [8, 8] of bf16 numbers in memory that kernels may touch.
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
    bool all(float value) const {
        const Bf16* numbers = tensor().as<Bf16>();
        return std::all_of(numbers, numbers + 64,
                           [=](Bf16 number) { return to_float(number) == value; });
    }

private:
    std::byte* data_ = allocate(128, MemorySpace::device);
};

TEST_CASE("only where bits may differ the library does the gelu, on sums that are not rounded",
          "[products]") {
    emulator::settings().major = 9;
    Device device;
    Products products(device.facts, nullptr);
    // 1 + 2^-9 in every sum, of which bf16 stores 1.
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
    linear_forward(args, products, device.context());
    device.synchronize();
    CHECK(y.all(1));
    // gelu(1) = 0.84119 is nearest to 215 / 256, gelu(1 + 2^-9) = 0.84331 to 216 / 256.
    CHECK(gelu.all(215.0f / 256));
    constexpr bool deterministic = false;
    linear_forward(args, products, device.context(deterministic));
    device.synchronize();
    CHECK(y.all(1));
    CHECK(gelu.all(216.0f / 256));
}

TEST_CASE("a product in 8 bits that the library cannot do says why", "[products]") {
    Device device;
    Products products(device.facts, nullptr);
    Numbers memory(8, 8, 0);
    Matrix eight = memory.matrix();
    eight.dtype = DType::f8e4m3;
    const Product product = {.a = eight, .b = eight, .c = memory.matrix()};
    CHECK(!products.supports(product));
    CHECK(contains(
        test::message_of(ExitCode::usage, [&] { products.multiply(product, device.context()); }),
        "fp8 needs compute capability 8.9"));
}

}  // namespace
}  // namespace gptrain::cuda
