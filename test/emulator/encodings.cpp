// Matrix descriptors and tensor maps: the hardware's documents decode them to what the kernels
// encode.
#include <functional>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "cuda/device/hopper.cuh"
#include "cuda/runtime/runtime.h"
#include "emulator/operand_layout.h"
#include "emulator/tensor_map.h"

namespace gptrain::cuda {
namespace {

constexpr int threads = 128;
constexpr int rows = 64;      // m
constexpr int columns = 128;  // n
constexpr int length = 64;    // k
constexpr int row_bytes = 128;
constexpr int panel_bytes = 64 * row_bytes;

int a_value(int m, int k) {
    return (7 * m + 3 * k) % 11 - 5;
}
int b_value(int n, int k) {
    return (5 * n + k) % 13 - 6;
}

struct OperandShared {
    alignas(1024) std::byte a[panel_bytes];
    std::byte b[2 * panel_bytes];
};

void put(std::byte* panel, int row, int column, int value) {
    *reinterpret_cast<Bf16*>(panel + swizzle_128(row * row_bytes + column * 2)) =
        narrow<Bf16>(static_cast<float>(value));
}

/// How the kernel describes b, given its address, to the step that begins at k.
template <Major major>
using DescribeB = Operand<major> (*)(std::uint32_t address, int k);

/// out[64, 128] = a b^T, with b stored as `major` says.
template <Major major>
void multiply(DescribeB<major> describe, float* out) {
    auto& shared = shared_memory<OperandShared>();
    for (int k = 0; k < length; ++k) {
        if (thread_index() < rows) put(shared.a, thread_index(), k, a_value(thread_index(), k));
        const int n = thread_index();
        if (major == Major::k) {
            put(shared.b, n, k, b_value(n, k));
        } else {
            put(shared.b + n / 64 * panel_bytes, k, n % 64, b_value(n, k));
        }
    }
    fence_async_proxy();
    block_barrier();
    float c[64] = {};
    const Operand<Major::k> a = k_major(shared_address(shared.a));
    warpgroup_fence();
    for (int k = 0; k < length; k += 16)
        warpgroup_multiply(c, a.later(2 * k), describe(shared_address(shared.b), k), k > 0);
    warpgroup_commit();
    warpgroup_wait<0>();
    pin_registers(c);
    const int row = thread_index() / 32 * 16 + thread_index() % 32 / 4;
    for (int i = 0; i < 64; ++i) {
        const int column = i / 4 * 8 + thread_index() % 4 * 2 + i % 2;
        out[(row + i % 4 / 2 * 8) * columns + column] = c[i];
    }
}

Operand<Major::k> described_k_major(std::uint32_t address, int k) {
    return k_major(address).later(2 * k);
}
Operand<Major::mn> described_mn_major(std::uint32_t address, int k) {
    return mn_major(address, panel_bytes).later(k * row_bytes);
}

/// True if the product is right; an Error as the emulator raises it.
template <Major major>
bool multiplies(DescribeB<major> describe) {
    emulator::settings() = {.major = 9, .minor = 0, .shared_bytes = 227 << 10, .races = true};
    auto* out = reinterpret_cast<float*>(allocate(rows * columns * 4, MemorySpace::device));
    const auto freed = [](float* p) {
        release(reinterpret_cast<std::byte*>(p), MemorySpace::device);
    };
    const std::unique_ptr<float, decltype(freed)> owner(out, freed);
    const Stream stream;
    launch(stream, {.threads = threads, .shared_bytes = sizeof(OperandShared)}, multiply<major>,
           describe, out);
    stream.synchronize();
    bool right = true;
    for (int m = 0; m < rows; ++m) {
        for (int n = 0; n < columns; ++n) {
            int sum = 0;
            for (int k = 0; k < length; ++k)
                sum += a_value(m, k) * b_value(n, k);
            right = right && out[m * columns + n] == static_cast<float>(sum);
        }
    }
    return right;
}

template <Major major>
std::string refused(DescribeB<major> describe) {
    try {
        multiplies<major>(describe);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

bool holds(const std::string& text, const std::string& words) {
    CAPTURE(text);
    return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("matrix descriptors have the bits of PTX's table", "[encodings]") {
    // Address 0x12c00, 1024 bytes between patterns of 8 rows, 128-byte swizzle.
    STATIC_REQUIRE(k_major(0x12c00).descriptor == 0x4000'0040'0001'12c0);
    STATIC_REQUIRE(k_major(0x12c00).later(96).descriptor == 0x4000'0040'0001'12c6);
    // 16 KiB from panel to panel.
    STATIC_REQUIRE(mn_major(0x39800, 0x4000).descriptor == 0x4000'0040'0400'3980);
    STATIC_REQUIRE(mn_major(0x39800, 0x4000).later(2048).descriptor == 0x4000'0040'0400'3a00);
}

TEST_CASE("products read the operands that descriptors describe", "[encodings]") {
    CHECK(multiplies<Major::k>(described_k_major));
    CHECK(multiplies<Major::mn>(described_mn_major));
}

TEST_CASE("wrong descriptors are noticed", "[encodings]") {
    SECTION("that are correct in themselves") {
        CHECK_FALSE(multiplies<Major::k>([](std::uint32_t address, int k) {
            return k_major(address).later(k);  // elements, not bytes
        }));
        CHECK_FALSE(multiplies<Major::mn>([](std::uint32_t address, int k) {
            return mn_major(address, panel_bytes / 2).later(k * row_bytes);
        }));
        CHECK_FALSE(multiplies<Major::mn>(
            [](std::uint32_t address, int) { return mn_major(address, panel_bytes); }));
    }
    SECTION("that begin inside of a pattern") {
        CHECK(holds(refused<Major::mn>([](std::uint32_t address, int k) {
                        return mn_major(address + 4 * row_bytes, panel_bytes).later(k * row_bytes);
                    }),
                    "inside of a pattern of 8 rows"));
        CHECK(holds(refused<Major::k>([](std::uint32_t address, int k) {
                        return k_major(address).later(k * row_bytes / 16);
                    }),
                    "inside of a pattern of 8 rows"));
    }
    SECTION("that mean another swizzle") {
        CHECK(holds(refused<Major::k>([](std::uint32_t address, int k) {
                        Operand<Major::k> b = k_major(address).later(2 * k);
                        b.descriptor ^= std::uint64_t{3} << 62;
                        return b;
                    }),
                    "other bits than those of a swizzle of 128 bytes"));
    }
    SECTION("that leave shared memory") {
        CHECK(holds(refused<Major::mn>([](std::uint32_t address, int k) {
                        return mn_major(address, 4 * panel_bytes).later(k * row_bytes);
                    }),
                    "an operand of a product"));
    }
}

TEST_CASE("tensor maps keep the driver's rules", "[encodings]") {
    const auto request = [](const Shape& shape, int box_rows) {
        alignas(16) static std::byte memory[1 << 16];
        return tensor_map_request(Tensor(memory, DType::bf16, shape), box_rows);
    };
    SECTION("for tensors of all sizes, also 1") {
        for (const std::int64_t batch : {1, 2})
            for (const std::int64_t length : {1, 5})
                for (const std::int64_t heads : {1, 3})
                    for (const std::int64_t dim : {64, 128}) {
                        const TensorMapRequest made = request({batch, length, heads, dim}, 64);
                        CAPTURE(batch, length, heads, dim);
                        CHECK(emulator::objection_to(made).empty());
                        CHECK(made.sizes[0] == static_cast<std::uint64_t>(dim));
                        CHECK(made.sizes[3] == static_cast<std::uint64_t>(batch));
                        CHECK(made.stride_bytes[2] ==
                              static_cast<std::uint64_t>(2 * length * heads * dim));
                    }
    }
    SECTION("for the heads of a fused tensor, and a part of its rows") {
        alignas(16) static std::byte memory[1 << 16];
        const Tensor fused(memory, DType::bf16, {2, 6, 5, 64});  // 3 heads of q, k and v
        for (int head = 0; head < 5; ++head) {
            const TensorMapRequest made =
                tensor_map_request(fused.slice(2, head, 1).slice(1, 2, 4), 64);
            CHECK(emulator::objection_to(made).empty());
            CHECK(made.data == memory + (2 * 5 + head) * 128);
            CHECK(made.stride_bytes[1] == 5 * 128);
            CHECK(made.stride_bytes[2] == 6 * 5 * 128);
        }
    }
    SECTION("and the stand-in has them") {
        using Change = std::function<void(TensorMapRequest&)>;
        const auto objection = [&](const Change& change) {
            TensorMapRequest changed = request({2, 4, 3, 64}, 64);
            change(changed);
            return emulator::objection_to(changed);
        };
        CHECK(objection([](TensorMapRequest&) {}).empty());
        CHECK(objection([](auto& r) { r.data += 8; }) ==
              "the address is not a multiple of 16 bytes");
        CHECK(objection([](auto& r) { r.sizes[2] = 0; }) == "size 2 is 0");
        CHECK(objection([](auto& r) { r.stride_bytes[0] = 136; }) == "stride 0 is 136");
        CHECK(objection([](auto& r) { r.stride_bytes[2] = std::uint64_t{1} << 40; }) ==
              text("stride 2 is ", std::uint64_t{1} << 40));
        CHECK(objection([](auto& r) { r.stride_bytes[2] = 128; }) ==
              "stride 2 is 128 after 4 times 384");
        CHECK(objection([](auto& r) { r.box[2] = 257; }) == "box 2 is 257");
        CHECK(objection([](auto& r) { r.box[0] = 128; }) == "rows of a box have 256");
    }
}

}  // namespace gptrain::cuda
