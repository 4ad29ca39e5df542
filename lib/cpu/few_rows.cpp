#include "cpu/few_rows.h"

#include "cpu/parallel.h"
#include "cpu/row_kernels.h"

namespace gptrain::cpu {
namespace {

/// Threads share the outputs.
template <class T>
void multiply(const Tensor& x, const Tensor& bias, const Tensor& y, bool accumulate,
              const auto& kernel, const auto& weight) {
    const FewRows<T> rows = {.x = Rows<T>(x),
                             .y = Rows<T>(y),
                             .bias = pointer_or_null<T>(bias),
                             .count = x.size(0),
                             .length = x.size(1),
                             .accumulate = accumulate};
    parallel_ranges(
        y.size(1), x.elements(), outputs_at_once,
        [&](std::int64_t begin, std::int64_t end) { kernel(rows, weight, begin, end); });
}

}  // namespace

bool has_few_rows(const LinearForward& args) {
    return !args.x.empty() && args.x.size(0) <= few_rows && args.x.dtype() == args.y.dtype();
}

void multiply_few_rows(const LinearForward& args) {
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        multiply<T>(args.x, args.bias, args.y, args.accumulate, row_kernels<T>().multiply,
                    Rows<T>(args.weight));
    });
}

void run(const Int8LinearForward& args) {
    GPTRAIN_CHECK(args.x.size(0) <= few_rows, args.x.size(0), " rows");
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const Int8Rows weight = {.values = Rows<std::int8_t>(args.weight.values),
                                 .scales = Rows<float>(args.weight.scales),
                                 .block = Int8Matrix::block};
        multiply<T>(args.x, args.bias, args.y, false, row_kernels<T>().multiply_int8, weight);
    });
}

void run(const Nf4LinearForward& args) {
    GPTRAIN_CHECK(args.x.size(0) <= few_rows && args.x.size(1) % nf4_block == 0, args.x.size(0),
                  " rows of ", args.x.size(1), " inputs");
    with_compute_type(args.x.dtype(), [&](auto type) {
        using T = decltype(type);
        const Nf4Rows weight = {.codes = args.weight.codes.as<std::uint8_t>(),
                                .scales = args.weight.scales_of_blocks()};
        multiply<T>(args.x, args.bias, args.y, false, row_kernels<T>().multiply_nf4, weight);
    });
}

}  // namespace gptrain::cpu
