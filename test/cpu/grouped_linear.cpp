// Grouped linear layers on the CPU: the same bits as a linear layer's, and on any number of
// threads.
#include <omp.h>

#include "catch.h"
#include "cpu/cpu_backend.h"
#include "host_tensor.h"

namespace gptrain {
namespace {

constexpr std::int64_t parts = 2;
constexpr std::int64_t inputs = 40;
constexpr std::int64_t outputs = 56;

/// x, dy and weights of a layer, its results, and memory for both ways to compute them.
struct Layer {
    std::unique_ptr<Backend> backend = cpu::make_backend();
    std::vector<double> starts;
    std::int64_t rows, experts;
    DType dtype;
    DeviceTensor scratch, x, dy, weight, offsets, y, dx, dweight;

    Layer(DType compute, const std::vector<double>& row_starts)
        : starts(row_starts),
          rows(static_cast<std::int64_t>(starts.back())),
          experts(std::ssize(starts) - 1),
          dtype(compute),
          scratch(*backend,
                  HostTensor(DType::u8,
                             {backend->scratch_bytes({.compute = dtype, .experts = experts})})),
          x(*backend, HostTensor(dtype, {rows, inputs}, random_values(), 1)),
          dy(*backend, HostTensor(dtype, {rows, parts * outputs}, random_values(), 2)),
          weight(*backend,
                 HostTensor(dtype, {parts, experts, outputs, inputs}, random_values(), 3)),
          offsets(*backend, HostTensor(DType::i32, {experts + 1}, given(starts))),
          y(*backend, HostTensor(dtype, {rows, parts * outputs})),
          dx(*backend, HostTensor(dtype, {rows, inputs})),
          dweight(*backend,
                  HostTensor(DType::f32, {parts, experts, outputs, inputs}, random_values(), 4)) {
        backend->use_scratch(scratch.tensor());
    }
    void run() {
        backend->run(GroupedForward{.x = x.tensor(),
                                    .weight = weight.tensor(),
                                    .offsets = offsets.tensor(),
                                    .y = y.tensor()});
        backend->run(GroupedInputGrad{.dy = dy.tensor(),
                                      .weight = weight.tensor(),
                                      .offsets = offsets.tensor(),
                                      .dx = dx.tensor()});
        backend->run(GroupedWeightGrad{.x = x.tensor(),
                                       .dy = dy.tensor(),
                                       .offsets = offsets.tensor(),
                                       .dweight = dweight.tensor()});
    }
    void run_dense() {
        const Shape shape = {parts * outputs, inputs};
        const Tensor matrix = weight.tensor().view(shape);
        backend->run(LinearForward{.x = x.tensor(), .weight = matrix, .bias = {}, .y = y.tensor()});
        backend->run(LinearInputGrad{
            .dy = dy.tensor(), .weight = matrix, .gelu_input = {}, .dx = dx.tensor()});
        backend->run(LinearWeightGrad{.x = x.tensor(),
                                      .dy = dy.tensor(),
                                      .dweight = dweight.tensor().view(shape),
                                      .dbias = {}});
    }
    std::vector<std::vector<std::byte>> bits() const {
        return {y.download().bytes(), dx.download().bytes(), dweight.download().bytes()};
    }
};

}  // namespace

TEST_CASE("a grouped linear layer of one expert has the bits of a linear layer") {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        for (const double rows : {1, 8, 9, 130, 600}) {
            CAPTURE(name_of(dtype), rows);
            Layer grouped(dtype, {0, rows});
            Layer dense(dtype, {0, rows});
            grouped.run();
            dense.run_dense();
            CHECK(grouped.bits() == dense.bits());
        }
    }
}

TEST_CASE("a grouped linear layer does not depend on how many threads share its blocks") {
    const int before = omp_get_max_threads();
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        const auto bits_on = [&](int threads) {
            omp_set_num_threads(threads);
            Layer layer(dtype, {0, 130, 130, 737, 738});
            layer.run();
            return layer.bits();
        };
        CAPTURE(name_of(dtype));
        CHECK(bits_on(1) == bits_on(5));
    }
    omp_set_num_threads(before);
}

}  // namespace gptrain
