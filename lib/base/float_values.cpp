#include "base/float_values.h"

#include <cstring>

#include "base/error.h"

namespace gptrain {
namespace {

template <class T>
void gather(std::span<const std::byte> from, std::int64_t first, std::int64_t stride,
            std::span<float> to) {
    constexpr std::int64_t width = sizeof(T);
    for (float& each : to) {
        T value{};
        std::memcpy(&value, from.data() + first * width, sizeof value);
        each = to_float(value);
        first += stride;
    }
}

template <class T>
std::span<const std::byte> round_in_place(std::span<float> values) {
    auto* to = reinterpret_cast<std::byte*>(values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const T value = from_float<T>(values[i]);
        std::memcpy(to + i * sizeof value, &value, sizeof value);
    }
    return {to, values.size() * sizeof(T)};
}

}  // namespace

void to_floats(std::span<const std::byte> from, DType dtype, std::int64_t first,
               std::int64_t stride, std::span<float> to) {
    switch (dtype) {
        case DType::f32: return gather<float>(from, first, stride, to);
        case DType::bf16: return gather<Bf16>(from, first, stride, to);
        case DType::f16: return gather<F16>(from, first, stride, to);
        default: GPTRAIN_CHECK(false, "values in ", name_of(dtype));
    }
}

std::span<const std::byte> from_floats(std::span<float> values, DType dtype) {
    switch (dtype) {
        case DType::f32: return std::as_bytes(values);
        case DType::bf16: return round_in_place<Bf16>(values);
        case DType::f16: return round_in_place<F16>(values);
        default: break;
    }
    GPTRAIN_CHECK(false, "values in ", name_of(dtype));
    return {};
}

}  // namespace gptrain
