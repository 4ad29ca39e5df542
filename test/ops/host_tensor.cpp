#include "host_tensor.h"

#include <cmath>
#include <cstring>

namespace gptrain {
namespace {

template <class T>
T read(const std::byte* at) {
    T x;
    std::memcpy(&x, at, sizeof x);
    return x;
}

template <class T>
void write(std::byte* at, T x) {
    std::memcpy(at, &x, sizeof x);
}

}  // namespace

double load(const std::byte* at, DType dtype) {
    switch (dtype) {
        case DType::f32: return read<float>(at);
        case DType::bf16: return to_float(read<Bf16>(at));
        case DType::f16: return to_float(read<F16>(at));
        case DType::f8e4m3: return to_float(read<F8E4M3>(at));
        case DType::f8e5m2: return to_float(read<F8E5M2>(at));
        case DType::f64: return read<double>(at);
        case DType::u8: return read<std::uint8_t>(at);
        case DType::i8: return read<std::int8_t>(at);
        case DType::i32: return read<std::int32_t>(at);
        case DType::i64: return static_cast<double>(read<std::int64_t>(at));
        default: fail(ExitCode::bug, "no test reads ", name_of(dtype));
    }
}

void store(std::byte* at, DType dtype, double x) {
    switch (dtype) {
        case DType::f32: return write(at, static_cast<float>(x));
        case DType::bf16: return write(at, to_bf16(static_cast<float>(x)));
        case DType::f16: return write(at, to_f16(static_cast<float>(x)));
        case DType::f8e4m3: return write(at, to_fp8<F8E4M3>(static_cast<float>(x)));
        case DType::f8e5m2: return write(at, to_fp8<F8E5M2>(static_cast<float>(x)));
        case DType::f64: return write(at, x);
        case DType::u8: return write(at, static_cast<std::uint8_t>(x));
        case DType::i8: return write(at, static_cast<std::int8_t>(x));
        case DType::i32: return write(at, static_cast<std::int32_t>(x));
        case DType::i64: return write(at, static_cast<std::int64_t>(x));
        default: fail(ExitCode::bug, "no test writes ", name_of(dtype));
    }
}

void for_each_element(const Tensor& view,
                      const std::function<void(std::byte*, std::int64_t)>& visit) {
    std::array<std::int64_t, Shape::max_rank> index{};
    const std::int64_t elements = view.elements();
    for (std::int64_t i = 0; i < elements; ++i) {
        std::int64_t offset = 0;
        for (int dim = 0; dim < view.rank(); ++dim) {
            offset += index[static_cast<std::size_t>(dim)] * view.stride(dim);
        }
        visit(view.data() + offset * size_of(view.dtype()), i);
        for (int dim = view.rank() - 1; dim >= 0; --dim) {
            if (++index[static_cast<std::size_t>(dim)] < view.size(dim)) break;
            index[static_cast<std::size_t>(dim)] = 0;
        }
    }
}

Values random_values(double deviation, double mean) {
    return [=](std::int64_t i, PhiloxKey stream) {
        double sum = -2;  // four uniform numbers: mean 2, variance 4 / 12
        for (const std::uint32_t word : philox({static_cast<std::uint32_t>(i), 0, 0, 0}, stream)) {
            sum += (word + 0.5) * 0x1p-32;
        }
        return mean + deviation * std::sqrt(3.0) * sum;
    };
}

Values random_integers(std::int64_t begin, std::int64_t end) {
    return [=](std::int64_t i, PhiloxKey stream) {
        const auto word = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, stream)[0];
        return static_cast<double>(begin + word % (end - begin));
    };
}

Values constant(double x) {
    return [=](std::int64_t, PhiloxKey) { return x; };
}

Values given(std::vector<double> values) {
    return [values = std::move(values)](std::int64_t i, PhiloxKey) {
        return values.at(static_cast<std::size_t>(i));
    };
}

void HostTensor::fill(const Tensor& view, const Values& values, std::uint32_t stream) {
    for_each_element(view, [&](std::byte* at, std::int64_t i) {
        store(at, view.dtype(), values(i, {stream, 0}));
    });
}

Array to_array(const Tensor& view) {
    Array array(view.shape(), view.dtype());
    for_each_element(view, [&](std::byte* at, std::int64_t i) {
        array.values()[static_cast<std::size_t>(i)] = load(at, view.dtype());
    });
    return array;
}

DeviceTensor::DeviceTensor(Backend& backend, const HostTensor& from)
    : backend_(&backend),
      buffer_(
          backend.allocate(static_cast<std::int64_t>(from.bytes().size()), MemorySpace::device)),
      tensor_(buffer_.data(), from.dtype(), from.shape()) {
    backend.upload(tensor_, from.bytes());
}

HostTensor DeviceTensor::download() const {
    HostTensor host(tensor_.dtype(), tensor_.shape());
    backend_->download(host.bytes(), tensor_);
    return host;
}

}  // namespace gptrain
