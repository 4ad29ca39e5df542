// Fixtures that the tests of GEMMs share: small operands, the emulator's device, and a library that
// answers as a test wants it to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/matrix.h"
#include "cuda/fake_cublas_lt.h"
#include "cuda/gemm/gemms.h"
#include "emulator/grid.h"

namespace gptrain::cuda {

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

/// For GEMMs that the library computes alone.
inline void no_kernel(const GemmPart& /*part*/, const OpContext& /*context*/) {
    fail(ExitCode::bug, "a kernel of ours computes a part");
}

/// A fixture that owns tensors in memory that kernels may access.
class Operands {
public:
    Operands(const Operands&) = delete;
    Operands& operator=(const Operands&) = delete;

protected:
    Operands() = default;
    ~Operands() {
        for (std::byte* each : memory_)
            release(each, MemorySpace::device);
    }
    Tensor make(DType dtype, const Shape& shape) {
        memory_.push_back(allocate(shape.elements() * size_of(dtype), MemorySpace::device));
        return {memory_.back(), dtype, shape};
    }
    template <class T>
    Tensor filled(DType dtype, const Shape& shape, T value) {
        const Tensor tensor = make(dtype, shape);
        std::fill(tensor.as<T>(), tensor.as<T>() + tensor.elements(), value);
        return tensor;
    }

private:
    std::vector<std::byte*> memory_;
};

/// Until its end the emulated device is of compute capability 9.0.
struct EmulatedHopper {
    EmulatedHopper() = default;
    EmulatedHopper(const EmulatedHopper&) = delete;
    EmulatedHopper& operator=(const EmulatedHopper&) = delete;
    ~EmulatedHopper() { emulator::settings() = before; }
    emulator::Settings before =
        std::exchange(emulator::settings(), {.major = 9, .minor = 0, .shared_bytes = 227 << 10});
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

}  // namespace gptrain::cuda
