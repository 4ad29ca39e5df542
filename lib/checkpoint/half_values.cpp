#include "checkpoint/half_values.h"

#include <cstring>

#include "base/error.h"

namespace gptrain {
namespace {

template <class T>
void widen_as(std::span<float> to, const std::byte* from) {
    for (std::size_t i = 0; i < to.size(); ++i) {
        T value;
        std::memcpy(&value, from + i * sizeof value, sizeof value);
        to[i] = to_float(value);
    }
}

template <class T>
std::span<const std::byte> narrow_as(std::span<float> values) {
    auto* to = reinterpret_cast<std::byte*>(values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const T value = from_float<T>(values[i]);
        std::memcpy(to + i * sizeof value, &value, sizeof value);
    }
    return {to, values.size() * sizeof(T)};
}

}  // namespace

void widen(std::span<float> to, std::span<const std::byte> from, DType dtype) {
    GPTRAIN_CHECK(dtype == DType::bf16 || dtype == DType::f16, "values in ", name_of(dtype));
    dtype == DType::bf16 ? widen_as<Bf16>(to, from.data()) : widen_as<F16>(to, from.data());
}

std::span<const std::byte> narrow(std::span<float> values, DType dtype) {
    switch (dtype) {
        case DType::f32: return std::as_bytes(values);
        case DType::bf16: return narrow_as<Bf16>(values);
        case DType::f16: return narrow_as<F16>(values);
        default: break;
    }
    GPTRAIN_CHECK(false, "values in ", name_of(dtype));
    return {};
}

}  // namespace gptrain
