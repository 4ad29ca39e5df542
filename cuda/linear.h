// Linear layers: products and what follows them.
#pragma once

#include "backend/backend.h"
#include "cuda/context.h"
#include "cuda/products.h"

namespace gptrain::cuda {

/// Where the library cannot end a product as an op asks for, the sums are kept in fp32, some rows
/// at a time, and rounded by an own kernel: once, either way. Which way depends on sizes and
/// strides. A gelu behind a product is its own kernel on the stored sums, unless the context need
/// not be deterministic and the library can do it.
void linear_forward(const LinearForward& args, Products& products, const OpContext& context);
void linear_input_grad(const LinearInputGrad& args, Products& products, const OpContext& context);
void linear_weight_grad(const LinearWeightGrad& args, Products& products, const OpContext& context);

std::int64_t linear_scratch_bytes(const OpLimits& limits);

}  // namespace gptrain::cuda
