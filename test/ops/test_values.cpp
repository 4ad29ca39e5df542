// Memory, copies, rounding and initialisation on every backend.
#include <cmath>
#include <cstring>
#include <limits>

#include "backends.h"
#include "catch.h"
#include "host_tensor.h"

namespace gptrain {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

template <class Test>
void on_each_backend(const Test& test) {
    for (const auto& backend : built_backends()) {
        INFO(backend->name());
        test(*backend);
    }
}

/// Hard values for every elementary operation: both sides of ties, the ends of the ranges.
std::vector<float> hard_numbers() {
    std::vector<float> numbers = {0.0f, -0.0f, 1.0f, infinity, -infinity, quiet_nan};
    for (const float edge :
         {1.0f, 3.0f, 65504.0f, 0x1p-14f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-126f, 0x1p-149f,
          3.3895314e38f, std::numeric_limits<float>::max()}) {
        const auto bits = std::bit_cast<std::uint32_t>(edge);
        for (const std::uint32_t step : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0x0fffu, 0x1000u,
                                         0x1001u, 0x17fffu, 0x18000u, 0x3000u}) {
            for (const std::uint32_t near : {bits + step, bits - step}) {
                numbers.push_back(std::bit_cast<float>(near));
                numbers.push_back(std::bit_cast<float>(near ^ 0x80000000u));
            }
        }
    }
    return numbers;
}

HostTensor to_host(const std::vector<float>& values) {
    HostTensor host(DType::f32, {static_cast<std::int64_t>(values.size())});
    std::memcpy(host.bytes().data(), values.data(), host.bytes().size());
    return host;
}

/// The nearest number of the type, ties to even, from the definition of the formats.
double nearest(double x, DType dtype) {
    if (dtype == DType::f32 || x == 0 || !std::isfinite(x)) return x;
    const int digits = dtype == DType::bf16 ? 8 : 11;
    const int least_exponent = dtype == DType::bf16 ? -126 : -14;
    const double largest = dtype == DType::bf16 ? 0x1.fep127 : 65504;
    const double unit = std::ldexp(1, std::max(std::ilogb(x), least_exponent) - (digits - 1));
    const double rounded = std::nearbyint(x / unit) * unit;
    return std::abs(rounded) > largest ? std::copysign(INFINITY, x) : rounded;
}

}  // namespace

TEST_CASE("what is uploaded comes back, and copies follow strides") {
    on_each_backend([](Backend& backend) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::u8, DType::i32, DType::i64}) {
            const HostTensor host(dtype, {7, 13}, random_integers(0, 100));
            const DeviceTensor device(backend, host);
            CHECK(device.download() == host);

            const DeviceTensor wider(backend, HostTensor(dtype, {9, 20}));
            const DeviceTensor narrow(backend, HostTensor(dtype, {5, 4}));
            const Tensor middle = wider.tensor().slice(0, 1, 7).slice(1, 3, 13);
            backend.copy(middle, device.tensor());
            backend.copy(narrow.tensor(), middle.slice(0, 2, 5).slice(1, 6, 4));
            HostTensor expected_wider(dtype, {9, 20});
            HostTensor expected_narrow(dtype, {5, 4});
            for_each_element(expected_wider.tensor().slice(0, 1, 7).slice(1, 3, 13),
                             [&](std::byte* at, std::int64_t i) { store(at, dtype, host[i]); });
            for_each_element(expected_narrow.tensor(), [&](std::byte* at, std::int64_t i) {
                store(at, dtype, host[(2 + i / 4) * 13 + 6 + i % 4]);
            });
            CHECK(wider.download() == expected_wider);
            CHECK(narrow.download() == expected_narrow);
        }
    });
}

TEST_CASE("copies follow the strides of four dims") {
    on_each_backend([](Backend& backend) {
        const HostTensor host(DType::bf16, {6, 40}, random_values());
        const DeviceTensor packed(backend, host);
        const DeviceTensor heads(backend, HostTensor(DType::bf16, {2, 3, 2, 8}));
        const auto view = [](const Tensor& all) { return all.slice(1, 16, 16).view({2, 3, 2, 8}); };
        backend.copy(heads.tensor(), view(packed.tensor()));
        HostTensor expected(DType::bf16, {2, 3, 2, 8});
        const Array values = to_array(view(host.tensor()));
        for_each_element(expected.tensor(), [&](std::byte* at, std::int64_t i) {
            store(at, DType::bf16, values.values()[static_cast<std::size_t>(i)].value);
        });
        CHECK(heads.download() == expected);
    });
}

TEST_CASE("a block in int8 with a number that is not finite is NaN") {
    on_each_backend([](Backend& backend) {
        for (const float bad : {infinity, -infinity, quiet_nan}) {
            std::vector<float> values(2 * 130, 1.0f);
            values[130 + 70] = bad;
            const DeviceTensor x(backend, to_host(values));
            const DeviceTensor integers(backend, HostTensor(DType::i8, {2, 130}));
            const DeviceTensor scales(backend, HostTensor(DType::f32, {2, 3}));
            const DeviceTensor back(backend, HostTensor(DType::f32, {2, 130}));
            const Int8Matrix matrix = {integers.tensor(), scales.tensor()};
            backend.run(ToInt8{.x = x.tensor().view({2, 130}), .out = matrix});
            backend.run(FromInt8{.x = matrix, .out = back.tensor()});
            const HostTensor result = back.download();
            for (std::int64_t i = 0; i < 2 * 130; ++i) {
                const std::int64_t column = i - 130;
                const bool in_block = column >= 64 && column < 128;
                CHECK(std::isnan(result[i]) == in_block);
                if (!in_block) CHECK(result[i] == 1);
            }
        }
    });
}

TEST_CASE("memory is aligned and there can be none") {
    on_each_backend([](Backend& backend) {
        for (const auto space : {MemorySpace::device, MemorySpace::host}) {
            const Buffer buffer = backend.allocate(1000, space);
            CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % Arena::alignment == 0);
        }
        CHECK_THROWS_AS(backend.allocate(std::int64_t{1} << 60, MemorySpace::device), Error);
    });
}

TEST_CASE("fill") {
    on_each_backend([](Backend& backend) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
            for (const float value : {0.0f, -1.5f, infinity}) {
                const DeviceTensor device(backend, HostTensor(dtype, {37, 3}));
                backend.run(Fill{.x = device.tensor(), .value = value});
                CHECK(device.download() == HostTensor(dtype, {37, 3}, constant(value)));
            }
        }
    });
}

TEST_CASE("casts round to nearest even") {
    const HostTensor numbers = to_host(hard_numbers());
    on_each_backend([&](Backend& backend) {
        const DeviceTensor wide(backend, numbers);
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
            CAPTURE(name_of(dtype));
            const DeviceTensor narrow(backend, HostTensor(dtype, numbers.shape()));
            const DeviceTensor back(backend, HostTensor(DType::f32, numbers.shape()));
            backend.run(Cast{.to = narrow.tensor(), .from = wide.tensor()});
            backend.run(Cast{.to = back.tensor(), .from = narrow.tensor()});
            const HostTensor result = back.download();
            for (std::int64_t i = 0; i < numbers.shape()[0]; ++i) {
                CAPTURE(numbers[i]);
                if (std::isnan(numbers[i])) {
                    CHECK(std::isnan(result[i]));
                } else {
                    CHECK(result[i] == nearest(numbers[i], dtype));
                    CHECK(std::signbit(result[i]) == std::signbit(numbers[i]));
                }
            }
        }
    });
}

TEST_CASE("NaN counts as nothing in a maximum") {
    // gelu leaves 4 as it is and maps -9 to almost nothing.
    const Values values = given({quiet_nan, -9, 1, quiet_nan, 4, quiet_nan});
    on_each_backend([&](Backend& backend) {
        for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
            for (const std::int64_t width : {6, 48}) {
                CAPTURE(name_of(dtype), width);
                const auto value = [&](std::int64_t i, PhiloxKey stream) {
                    return i < 6 ? values(i, stream) : 0.0;
                };
                const DeviceTensor x(backend, HostTensor(dtype, {1, width}, value));
                const DeviceTensor y(backend, HostTensor(dtype, {1, width}));
                const DeviceTensor of_x(backend, HostTensor(DType::f32, {1}, constant(0)));
                const DeviceTensor of_y(backend, HostTensor(DType::f32, {1}, constant(0)));
                backend.run(UpdateAmax{.x = x.tensor(), .amax = of_x.tensor()});
                backend.run(
                    ActivationForward{.u = x.tensor(), .y = y.tensor(), .amax = of_y.tensor()});
                CHECK(std::isnan(y.download()[0]));
                CHECK(of_x.download()[0] == 9);
                CHECK(of_y.download()[0] == y.download()[4]);
            }
        }
    });
}

TEST_CASE("initial weights are normal and independent") {
    on_each_backend([](Backend& backend) {
        constexpr std::int64_t count = 300001;
        constexpr double deviation = 0.02;
        const DeviceTensor device(backend, HostTensor(DType::f32, {count}));
        backend.run(InitNormal{.x = device.tensor(),
                               .shard = Shard::whole("wte.weight", {count}),
                               .seed = 1234,
                               .std = 0.02f});
        const HostTensor x = device.download();
        double mean = 0, square = 0, fourth = 0, largest = 0;
        double neighbours[4] = {};
        for (std::int64_t i = 0; i < count; ++i) {
            const double z = x[i] / deviation;
            mean += z / count;
            square += z * z / count;
            fourth += z * z * z * z / count;
            largest = std::max(largest, std::abs(z));
            for (std::int64_t d = 1; d <= 4 && i + d < count; ++d) {
                neighbours[d - 1] += z * x[i + d] / deviation / count;
            }
        }
        // Five standard errors of each estimate.
        const double unit = 5 / std::sqrt(static_cast<double>(count));
        CHECK(std::abs(mean) < unit);
        CHECK(std::abs(square - 1) < unit * std::sqrt(2.0));
        CHECK(std::abs(fourth - 3) < unit * std::sqrt(96.0));
        CHECK(largest > 4);
        CHECK(largest < 6.7);
        for (const double correlation : neighbours)
            CHECK(std::abs(correlation) < unit);
    });
}

TEST_CASE("initial weights depend on seed, name and global element alone") {
    on_each_backend([](Backend& backend) {
        const Shape global = {13, 10};
        const auto draw = [&](const Shard& shard, std::uint64_t seed) {
            const DeviceTensor device(backend, HostTensor(DType::f32, {shard.elements()}));
            backend.run(
                InitNormal{.x = device.tensor(), .shard = shard, .seed = seed, .std = 1.0f});
            return device.download();
        };
        const HostTensor whole = draw(Shard::whole("a", global), 1);
        CHECK(whole == draw(Shard::whole("a", global), 1));
        CHECK_FALSE(whole == draw(Shard::whole("b", global), 1));
        CHECK_FALSE(whole == draw(Shard::whole("a", global), 2));
        CHECK_FALSE(whole == draw(Shard::whole("a", global), 1 + (std::uint64_t{1} << 40)));

        const Shard shards[] = {{"a", global, {{0, 0}, {13, 10}}, 17, 90, true},
                                {"a", global, {{3, 0}, {5, 10}}, 0, 50, true},
                                {"a", global, {{2, 3}, {9, 5}}, 7, 31, true},
                                {"a", global, {{12, 9}, {1, 1}}, 0, 1, true}};
        for (const Shard& shard : shards) {
            const HostTensor part = draw(shard, 1);
            for (std::int64_t i = 0; i < shard.elements(); ++i) {
                CAPTURE(i);
                CHECK(part[i] == whole[shard.global_index(shard.flat_begin + i)]);
            }
        }
    });
}

TEST_CASE("a checksum is the sum of hashed words, and shows every flipped bit") {
    const auto expected = [](const std::vector<std::uint8_t>& bytes) {
        std::uint64_t sum = 5;
        for (std::size_t begin = 0; begin < bytes.size(); begin += 8) {
            std::uint64_t word = 0;
            for (std::size_t i = begin; i < std::min(begin + 8, bytes.size()); ++i)
                word |= static_cast<std::uint64_t>(bytes[i]) << (8 * (i - begin));
            const std::uint64_t product =
                (word + (begin / 8 + 1) * 0x9e3779b97f4a7c15U) * 0xd6e8feb86659fd93U;
            sum += product ^ (product >> 32);
        }
        return static_cast<std::int64_t>(sum);
    };
    for (const auto& backend : built_backends()) {
        const DeviceTensor scratch(*backend, HostTensor(DType::u8, {backend->scratch_bytes({})}));
        backend->use_scratch(scratch.tensor());
        for (const std::int64_t count : {0, 1, 7, 8, 17, 4096, 100003}) {
            std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
            for (std::size_t i = 0; i < bytes.size(); ++i)
                bytes[i] = static_cast<std::uint8_t>(i * i + 7 * i);
            const auto sum_of = [&] {
                HostTensor host(DType::u8, {count});
                std::copy(bytes.begin(), bytes.end(), host.tensor().as<std::uint8_t>());
                HostTensor start(DType::i64, {1});
                *start.tensor().as<std::int64_t>() = 5;
                const DeviceTensor x(*backend, host);
                const DeviceTensor sum(*backend, start);
                backend->run(Checksum{.x = x.tensor(), .sum = sum.tensor()});
                return *sum.download().tensor().as<std::int64_t>();
            };
            const std::int64_t before = sum_of();
            CHECK(before == expected(bytes));
            for (std::size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 5) {
                bytes[i] ^= 0x10;
                CHECK(sum_of() != before);
                bytes[i] ^= 0x10;
            }
        }
    }
}

}  // namespace gptrain
