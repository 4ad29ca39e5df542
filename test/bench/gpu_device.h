// The first GPU, tensors of random values on it, and timing.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "cuda/runtime/runtime.h"

namespace gptrain::bench {

class Device {
public:
    /// How many sets of tensors a measured call rotates through, so that it never finds its own in
    /// a cache.
    static constexpr std::int64_t sets = 2;

    /// Has scratch memory for ops within these limits.
    explicit Device(const OpLimits& limits);

    Backend& backend() { return *backend_; }
    const cuda::Stream& stream() const;

    /// Values of N(0, std) in fp32, bf16 or fp16.
    Tensor random(DType dtype, const Shape& shape, float std = 1);
    Tensor zeros(DType dtype, const Shape& shape);
    /// i32 tensors.
    Tensor numbers(const Shape& shape, const std::function<std::int32_t(std::int64_t)>& value);
    /// A zeroed step state with one slot.
    StepRef step_state();
    /// Frees all tensors made so far.
    void free_all();

    /// Seconds of one call of `work`, which receives the number of the set to use: the median of
    /// seven batches of calls of about 20 ms each, on the device's clock.
    double seconds(const std::function<void(std::int64_t)>& work);

private:
    Tensor allocate(DType dtype, const Shape& shape);
    void draw(const Tensor& tensor, float std);
    double batch(const std::function<void(std::int64_t)>& work, std::int64_t calls);

    std::unique_ptr<Backend> backend_;
    Buffer scratch_;
    std::vector<Buffer> buffers_;
    std::int64_t drawn_ = 0;
    cuda::Event start_{cuda::Event::Purpose::time};
    cuda::Event end_{cuda::Event::Purpose::time};
};

}  // namespace gptrain::bench
