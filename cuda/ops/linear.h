// Linear layers: products and what follows them.
#pragma once

#include "backend/backend.h"
#include "cuda/products/products.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

/// Bias and gelu_input end a product in the library. Where it cannot, and where tuning found that
/// slower, the sums are kept in fp32, some rows at a time, and finished by an own kernel. They are
/// rounded once, either way, and which way depends on what Products says. A gelu behind a product
/// is its own kernel on the stored sums, unless the context need not be deterministic: then it may
/// end the product too. A bias gradient never does, because the library's epilogue stores where
/// dbias is added to: it is a kernel of its own (linear_bias.h).
void linear_forward(const LinearForward& args, Products& products, const OpContext& context);
void linear_input_grad(const LinearInputGrad& args, Products& products, const OpContext& context);
void linear_weight_grad(const LinearWeightGrad& args, Products& products, const OpContext& context);

std::int64_t linear_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
