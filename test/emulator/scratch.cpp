// Ops with exactly the scratch memory that their own formula gives. The whole of a backend's is
// larger: it is that of the op that needs most.
#include <functional>

#include "backend/buffer.h"
#include "catch.h"
#include "cuda/ops/fp8.h"
#include "cuda/ops/linear_bias.h"
#include "cuda/runtime/runtime.h"

using namespace gptrain;
using namespace gptrain::cuda;

namespace {

/// Device memory, released at the end of the block.
class DeviceBytes {
public:
    explicit DeviceBytes(std::int64_t bytes) : data_(allocate(bytes, MemorySpace::device)) {}
    DeviceBytes(const DeviceBytes&) = delete;
    DeviceBytes& operator=(const DeviceBytes&) = delete;
    ~DeviceBytes() { release(data_, MemorySpace::device); }
    Tensor tensor(DType dtype, const Shape& shape) const { return {data_, dtype, shape}; }
    std::byte* data() const { return data_; }

private:
    std::byte* data_;
};

/// Runs an op with so much scratch memory; an op that takes more throws.
void run_with(std::int64_t scratch_bytes, const std::function<void(const OpContext&)>& op) {
    const DeviceProperties device = open_device(0);
    const Stream stream;
    const DeviceBytes memory(scratch_bytes);
    Scratch scratch(memory.data(), scratch_bytes);
    op({.stream = stream, .scratch = scratch, .device = device});
    stream.synchronize();
}

}  // namespace

TEST_CASE("sums of rows take no more scratch than their formula says", "[choice]") {
    // Multiples of 16: of other sizes a conversion leaves the sums to BiasGrad.
    const std::int64_t rows = GENERATE(16, 64, 128, 144, 1008);
    const std::int64_t cols = GENERATE(16, 528);
    const DeviceBytes x(rows * cols * 2), transposed(rows * cols), sums(cols * 4), scalars(512);
    const Tensor values = x.tensor(DType::bf16, {rows, cols});
    const Tensor row_sum = sums.tensor(DType::f32, {cols});
    const OpLimits limits = {
        .compute = DType::bf16, .sequences = 1, .seq_length = rows, .widest = cols};
    CHECK_NOTHROW(run_with(fp8_scratch_bytes(limits), [&](const OpContext& context) {
        run(ToFp8{.x = values,
                  .amax = Tensor(scalars.data(), DType::f32, {1}),
                  .out = {{},
                          transposed.tensor(DType::f8e5m2, {cols, rows}),
                          Tensor(scalars.data() + 256, DType::f32, {1})},
                  .row_sum = row_sum},
            context);
    }));
    CHECK_NOTHROW(run_with(bias_scratch_bytes(limits), [&](const OpContext& context) {
        run(BiasGrad{.dy = values, .dbias = row_sum}, context);
    }));
}
