#include "backend/linear_op.h"

namespace gptrain {
namespace {

/// Layout of a matrix, or of a vector as one row.
MatrixLayout form_of(const Tensor& tensor) {
    if (tensor.empty()) return {};
    const bool vector = tensor.rank() == 1;
    return {.rows = vector ? 1 : tensor.size(0),
            .cols = tensor.size(-1),
            .row_stride = vector ? tensor.size(0) : tensor.stride(0),
            .offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(tensor.data()) %
                                                MatrixLayout::alignment),
            .dtype = tensor.dtype()};
}

/// A contiguous tensor as rows of its last dim.
MatrixLayout form_of_all(const Tensor& tensor) {
    if (tensor.empty()) return {};
    return form_of(tensor.view({tensor.elements() / tensor.size(-1), tensor.size(-1)}));
}

const Tensor& rows_of(const Tensor& tensor, const Fp8Matrix& fp8) {
    return fp8.empty() ? tensor : fp8.rowwise;
}
const Tensor& columns_of(const Tensor& tensor, const Fp8Matrix& fp8) {
    return fp8.empty() ? tensor : fp8.columnwise;
}

}  // namespace

LinearOp::LinearOp(const LinearForward& args)
    : kind(Kind::forward),
      first(form_of(rows_of(args.x, args.x8))),
      second(form_of(rows_of(args.weight, args.weight8))),
      extra(form_of(args.bias)),
      result(form_of(args.y)),
      gelu(form_of(args.gelu)),
      swiglu(form_of(args.swiglu)),
      accumulate(args.accumulate ? 1 : 0),
      in_blocks(args.x8.in_blocks() ? 1 : 0) {}

LinearOp::LinearOp(const LinearInputGrad& args)
    : kind(Kind::input_grad),
      first(form_of(rows_of(args.dy, args.dy8))),
      second(form_of(columns_of(args.weight, args.weight8))),
      extra(form_of(args.swiglu_input.empty() ? args.gelu_input : args.swiglu_input)),
      result(form_of(args.dx)),
      swiglu(form_of(args.du)),
      accumulate(args.accumulate ? 1 : 0),
      in_blocks(args.dy8.in_blocks() ? 1 : 0) {}

LinearOp::LinearOp(const LinearWeightGrad& args)
    : kind(Kind::weight_grad),
      first(form_of(columns_of(args.dy, args.dy8))),
      second(form_of(columns_of(args.x, args.x8))),
      extra(form_of(args.dbias)),
      result(form_of(args.dweight)),
      accumulate(args.accumulate ? 1 : 0),
      in_blocks(args.dy8.in_blocks() ? 1 : 0) {}

LinearOp::LinearOp(const GroupedForward& args)
    : kind(Kind::grouped_forward),
      first(form_of(args.x)),
      second(form_of_all(args.weight)),
      extra(form_of_all(args.bias)),
      result(form_of(args.y)),
      experts(args.weight.size(1)),
      parts(args.weight.size(0)),
      expected(args.expected) {}

LinearOp::LinearOp(const GroupedInputGrad& args)
    : kind(Kind::grouped_input_grad),
      first(form_of(args.dy)),
      second(form_of_all(args.weight)),
      result(form_of(args.dx)),
      experts(args.weight.size(1)),
      parts(args.weight.size(0)),
      expected(args.expected) {}

LinearOp::LinearOp(const GroupedWeightGrad& args)
    : kind(Kind::grouped_weight_grad),
      first(form_of(args.dy)),
      second(form_of(args.x)),
      result(form_of_all(args.dweight)),
      accumulate(args.accumulate ? 1 : 0),
      experts(args.dweight.size(1)),
      parts(args.dweight.size(0)),
      expected(args.expected) {}

}  // namespace gptrain
