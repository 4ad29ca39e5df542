// The GEMM kernel for sm_90a with operands of FP8, both with the summed dim contiguous, and 128
// elements in a step.
#include "cuda/gemm/sm90/gemm.h"
#include "cuda/gemm/sm90/kernel.cuh"

namespace gptrain::cuda::sm90 {
namespace {

using Outputs = Fp8Elements<F8E4M3>;
using Gradients = Fp8Elements<F8E5M2>;

using FastOutputs = StepProducts<Outputs, Major::k, Major::k>;
using BlockOutputs = PromotedProducts<Outputs, false, Scaling::blocks>;
using BlockGradients = PromotedProducts<Outputs, true, Scaling::strips>;
using InputGradients = PromotedProducts<Gradients, false, Scaling::whole>;
using WeightGradients = PromotedProducts<Gradients, true, Scaling::whole>;

template <class Products, GemmResult result>
__global__ void __launch_bounds__(threads_of_block, 1)
    fp8_kernel(const __grid_constant__ GemmWork work) {
    run_block<Products, Bf16, result>(work);
}

template <class Products, GemmResult result>
void run(const Gemm& gemm, std::int64_t parts, const OpContext& context) {
    launch_gemm<Products, result>(fp8_kernel<Products, result>, gemm, parts, context);
}

}  // namespace

void multiply_fp8(const Gemm& gemm, std::int64_t parts, const OpContext& context) {
    using enum GemmResult;
    const bool wide = gemm.c.dtype == DType::f32;
    if (gemm.a.in_blocks()) {
        return wide ? run<BlockGradients, sums>(gemm, parts, context)
                    : run<BlockOutputs, rounded>(gemm, parts, context);
    }
    if (gemm.fast_accumulation) return run<FastOutputs, rounded>(gemm, parts, context);
    wide ? run<WeightGradients, sums>(gemm, parts, context)
         : run<InputGradients, rounded>(gemm, parts, context);
}

}  // namespace gptrain::cuda::sm90
