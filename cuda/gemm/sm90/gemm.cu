// The GEMM kernel for sm_90a with operands of 16 bits.
#include "cuda/gemm/sm90/gemm.h"

#include "cuda/gemm/sm90/kernel.cuh"
#include "cuda/gemm/sm90/multiply.cuh"

namespace gptrain::cuda::sm90 {
namespace {

template <class T, Major a_major, Major b_major, GemmResult result>
__global__ void __launch_bounds__(threads_of_block, 1)
    gemm_kernel(const __grid_constant__ GemmWork work) {
    run_block<StepProducts<T, a_major, b_major>, T, result>(work);
}

template <class T, Major a_major, Major b_major, GemmResult result>
void run(const Gemm& gemm, std::int64_t parts, const OpContext& context) {
    launch_gemm<StepProducts<T, a_major, b_major>, result>(gemm_kernel<T, a_major, b_major, result>,
                                                           gemm, parts, context);
}

template <class T>
__global__ void __launch_bounds__(threads_of_block, 1)
    row_sums_kernel(const __grid_constant__ GemmWork work) {
    run_block<ProductsAndRowSums<T>, T, GemmResult::sums>(work);
}

template <class T>
void run_as(const Gemm& gemm, std::int64_t parts, const OpContext& context) {
    using enum GemmResult;
    const bool wide = gemm.c.dtype == DType::f32;
    switch (layout_of(gemm)) {
        case GemmLayout::k_k:
            if (gemm.swiglu.data != nullptr)
                return run<T, Major::k, Major::k, swiglu>(gemm, parts, context);
            if (gemm.gelu.data != nullptr)
                return run<T, Major::k, Major::k, GemmResult::gelu>(gemm, parts, context);
            return wide ? run<T, Major::k, Major::k, sums>(gemm, parts, context)
                        : run<T, Major::k, Major::k, rounded>(gemm, parts, context);
        case GemmLayout::k_mn:
            if (gemm.swiglu_input.data != nullptr)
                return run<T, Major::k, Major::mn, swiglu_slope>(gemm, parts, context);
            if (gemm.gelu_input.data != nullptr)
                return run<T, Major::k, Major::mn, gelu_slope>(gemm, parts, context);
            return run<T, Major::k, Major::mn, rounded>(gemm, parts, context);
        case GemmLayout::mn_mn:
            if (gemm.a_sums != nullptr)
                return launch_gemm<ProductsAndRowSums<T>, sums>(row_sums_kernel<T>, gemm, parts,
                                                                context);
            return run<T, Major::mn, Major::mn, sums>(gemm, parts, context);
    }
}

}  // namespace

void multiply(const Gemm& gemm, std::int64_t parts, const OpContext& context) {
    GPTRAIN_CHECK(covers_gemm(gemm) && (gemm.a_sums == nullptr || may_sum_rows(gemm)) && parts > 0,
                  "sm90::multiply does not support this GEMM");
    switch (gemm.a.dtype) {
        case DType::bf16: return run_as<Bf16>(gemm, parts, context);
        case DType::f16: return run_as<F16>(gemm, parts, context);
        default: multiply_fp8(gemm, parts, context);
    }
}

}  // namespace gptrain::cuda::sm90
