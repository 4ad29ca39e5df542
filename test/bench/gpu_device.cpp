#include "gpu_device.h"

#include <algorithm>

#include "base/text.h"
#include "cuda/cuda_backend.h"

namespace gptrain::bench {

Device::Device(const OpLimits& limits) {
    cuda::Options options = cuda::options_from_environment();
    options.tune_gemms = true;
    backend_ = cuda::make_backend(0, options);
    const std::int64_t bytes = backend_->scratch_bytes(limits);
    scratch_ = backend_->allocate(bytes, MemorySpace::device);
    backend_->use_scratch(Tensor(scratch_.data(), DType::u8, {bytes}));
}

const cuda::Stream& Device::stream() const {
    return *cuda::compute_stream(*backend_);
}

Tensor Device::allocate(DType dtype, const Shape& shape) {
    buffers_.push_back(backend_->allocate(shape.elements() * size_of(dtype), MemorySpace::device));
    return Tensor(buffers_.back().data(), dtype, shape);
}

void Device::draw(const Tensor& tensor, float std) {
    const Shape flat = {tensor.elements()};
    backend_->run(InitNormal{.x = tensor.view(flat),
                             .shard = Shard::whole(text("random ", ++drawn_), flat),
                             .seed = 1,
                             .std = std});
}

Tensor Device::random(DType dtype, const Shape& shape, float std) {
    const Tensor tensor = allocate(dtype, shape);
    if (dtype == DType::f32) {
        draw(tensor, std);
        return tensor;
    }
    const Buffer drawn = backend_->allocate(tensor.elements() * 4, MemorySpace::device);
    const Tensor exact(drawn.data(), DType::f32, {tensor.elements()});
    draw(exact, std);
    backend_->run(Cast{.to = tensor.view({tensor.elements()}), .from = exact});
    backend_->synchronize();
    return tensor;
}

Tensor Device::zeros(DType dtype, const Shape& shape) {
    const Tensor tensor = allocate(dtype, shape);
    backend_->run(Fill{.x = tensor, .value = 0});
    return tensor;
}

Tensor Device::numbers(const Shape& shape, const std::function<std::int32_t(std::int64_t)>& value) {
    const Tensor tensor = allocate(DType::i32, shape);
    std::vector<std::int32_t> values;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
        values.push_back(value(i));
    backend_->upload(tensor, std::as_bytes(std::span(values)));
    return tensor;
}

StepRef Device::step_state() {
    return {.state = zeros(DType::u8, {sizeof(StepState)}),
            .first_sequence = zeros(DType::i64, {1})};
}

void Device::free_all() {
    backend_->synchronize();
    buffers_.clear();
}

double Device::seconds(const std::function<void(std::int64_t)>& work) {
    constexpr double batch_seconds = 0.02;
    constexpr std::int64_t most_calls = 200;
    constexpr std::size_t batches = 7;
    batch(work, sets);
    const double first = batch(work, sets);
    const auto calls =
        std::clamp(static_cast<std::int64_t>(batch_seconds / first), sets, most_calls);
    std::vector<double> results;
    for (std::size_t i = 0; i < batches; ++i)
        results.push_back(batch(work, calls));
    std::sort(results.begin(), results.end());
    return results[batches / 2];
}

double Device::batch(const std::function<void(std::int64_t)>& work, std::int64_t calls) {
    start_.record(stream());
    for (std::int64_t i = 0; i < calls; ++i)
        work(i % sets);
    end_.record(stream());
    end_.synchronize();
    return end_.milliseconds_since(start_) * 1e-3 / static_cast<double>(calls);
}

}  // namespace gptrain::bench
