// Linear layers over few rows, as when a model writes token by token: their time is that of reading
// the weight.
#pragma once

#include "backend/ops.h"

namespace gptrain::cpu {

/// True if multiply_few_rows is faster than a GEMM, which packs the weight first: few rows, and all
/// of one dtype.
bool has_few_rows(const LinearForward& args);

/// y (+)= x weight^T + bias, fp32 sums that are rounded once. Reads the weight once. A row's bits
/// do not depend on how many others there are.
void multiply_few_rows(const LinearForward& args);

void run(const Int8LinearForward& args);
void run(const Nf4LinearForward& args);

}  // namespace gptrain::cpu
