#include <algorithm>

#include "cases.h"
#include "swiglu_case.h"

namespace gptrain {
namespace {

enum class Use { check, time, time_head };

struct Size {
    std::int64_t tokens, inputs, outputs;
    std::int64_t gap = 0;  ///< between the rows of activations
    Use use = Use::check;
};

constexpr Size sizes[] = {
    {1, 1, 1},
    {1, 5, 3},
    {2, 64, 1},
    {7, 13, 11},
    {7, 13, 11, 5},
    {33, 64, 48, 16},
    {64, 64, 48, 16},
    {128, 256, 192},
    {131, 67, 150, 3},
    {64, 300, 31},
    {1000, 9, 5},
    {200, 129, 257},
    {8, 70, 9, 2},
    {5, 33, 14},
    {1100, 6, 3},
    {1, 768, 3072, 0, Use::time},
    {4, 768, 3072, 0, Use::time},
    {8, 768, 3072, 0, Use::time},
    {1, 768, 50257, 0, Use::time_head},
    {8, 768, 50257, 0, Use::time_head},
    {256, 768, 2304, 0, Use::time},
    {256, 768, 3072, 0, Use::time},
    {256, 3072, 768, 0, Use::time},
    {1024, 768, 3072, 0, Use::time},
    {256, 768, 50257, 0, Use::time_head},
};

OpCase make_case(std::string_view op, const Size& size, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = 1;
    limits.seq_length = size.tokens;
    limits.hidden = size.inputs;
    if (size.use == Use::time_head) {
        limits.widest = size.inputs;
        limits.vocab = size.outputs;
        limits.head_rows = size.tokens;
    } else {
        limits.widest = std::max(size.inputs, size.outputs);
    }
    OpCase result(text(op, " ", name_of(dtype), " T", size.tokens, " I", size.inputs, " O",
                       size.outputs, " gap", size.gap),
                  limits);
    result.flops = 2.0 * static_cast<double>(size.tokens * size.inputs * size.outputs);
    result.large = size.use != Use::check;
    return result;
}

OpCase forward(const Size& size, DType dtype, bool with_bias) {
    OpCase op = make_case(with_bias ? "linear_forward bias" : "linear_forward", size, dtype);
    const auto x = op.input(dtype, {size.tokens, size.inputs}, random_values(), size.gap);
    const auto weight = op.input(dtype, {size.outputs, size.inputs}, random_values(0.5));
    const auto bias = with_bias ? op.input(dtype, {size.outputs}, random_values()) : none;
    const auto y = op.output(dtype, {size.tokens, size.outputs}, size.gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{at[x], at[weight], at[bias], at[y]});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_forward(at[x], at[weight], at[bias], at[y]);
    };
    return op;
}

/// The result stays fp32, as the logits of a router do.
OpCase forward_to_fp32(const Size& size, DType dtype, bool with_bias) {
    OpCase op = make_case(with_bias ? "linear_forward to fp32 bias" : "linear_forward to fp32",
                          size, dtype);
    const auto x = op.input(dtype, {size.tokens, size.inputs}, random_values(), size.gap);
    const auto weight = op.input(dtype, {size.outputs, size.inputs}, random_values(0.5));
    const auto bias = with_bias ? op.input(dtype, {size.outputs}, random_values()) : none;
    const auto y = op.output(DType::f32, {size.tokens, size.outputs}, size.gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{at[x], at[weight], at[bias], at[y]});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_forward(at[x], at[weight], at[bias], at[y]);
    };
    return op;
}

OpCase forward_added(const Size& size, DType dtype) {
    OpCase op = make_case("linear_forward accumulate", size, dtype);
    const auto x = op.input(dtype, {size.tokens, size.inputs}, random_values(), size.gap);
    const auto weight = op.input(dtype, {size.outputs, size.inputs}, random_values(0.5));
    const auto y = op.updated(dtype, {size.tokens, size.outputs}, random_values(3), size.gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{
            .x = at[x], .weight = at[weight], .bias = {}, .y = at[y], .accumulate = true});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_forward(at[x], at[weight], at[none], at[y], reference::Result::added);
    };
    return op;
}

Array as_stored(Array sums, DType dtype) {
    for (Bounded& sum : sums.values())
        sum = stored(sum, dtype);
    return sums;
}

OpCase forward_and_gelu(const Size& size, DType dtype, bool with_bias) {
    OpCase op =
        make_case(with_bias ? "linear_forward bias gelu" : "linear_forward gelu", size, dtype);
    const auto x = op.input(dtype, {size.tokens, size.inputs}, random_values(), size.gap);
    const auto weight = op.input(dtype, {size.outputs, size.inputs}, random_values(0.5));
    const auto bias = with_bias ? op.input(dtype, {size.outputs}, random_values()) : none;
    const auto y = op.output(dtype, {size.tokens, size.outputs});
    const auto gelu = op.output(dtype, {size.tokens, size.outputs});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{at[x], at[weight], at[bias], at[y], at[gelu]});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_forward(at[x], at[weight], at[bias], at[y]);
        // The bound also allows for sums that are not rounded.
        reference::activation_forward(Activation::gelu, as_stored(at[y], dtype), at[gelu]);
    };
    return op;
}

OpCase forward_and_swiglu(const Size& size, DType dtype, bool with_bias) {
    OpCase op =
        make_case(with_bias ? "linear_forward bias swiglu" : "linear_forward swiglu", size, dtype);
    const std::int64_t outputs = 2 * size.outputs;
    op.limits.widest = std::max(op.limits.widest, outputs);
    const auto x = op.input(dtype, {size.tokens, size.inputs}, random_values(), size.gap);
    const auto weight = op.input(dtype, {outputs, size.inputs}, random_values(0.5));
    const auto bias = with_bias ? op.input(dtype, {outputs}, random_values()) : none;
    const auto y = op.output(dtype, {size.tokens, outputs});
    const auto swiglu = op.output(dtype, {size.tokens, size.outputs});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearForward{
            .x = at[x], .weight = at[weight], .bias = at[bias], .y = at[y], .swiglu = at[swiglu]});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_forward(at[x], at[weight], at[bias], at[y]);
        reference::activation_forward(Activation::swiglu, as_stored(at[y], dtype), at[swiglu]);
    };
    return op;
}

OpCase input_grad_through_swiglu(const Size& size, DType dtype) {
    OpCase op = make_case("linear_input_grad swiglu", size, dtype);
    op.limits.widest = std::max(op.limits.widest, 2 * size.inputs);
    const auto dy = op.input(dtype, {size.tokens, size.outputs}, random_values(), size.gap);
    const auto weight = op.input(dtype, {size.outputs, size.inputs}, random_values(0.5));
    const auto u = op.input(dtype, {size.tokens, 2 * size.inputs}, random_values(2));
    const auto [dx, du] =
        swiglu_case::run_input_grad(op, dy, weight, u, dtype, {size.tokens, size.inputs});
    op.reference = [=, dx = dx, du = du](Arrays& at) {
        reference::linear_input_grad(at[dy], at[weight], at[none], at[dx]);
        reference::activation_backward(Activation::swiglu, at[u], as_stored(at[dx], dtype), at[du]);
        for (Bounded& x : at[dx].values())
            x = 0;
    };
    return op;
}

OpCase input_grad(const Size& size, DType dtype, bool with_gelu) {
    OpCase op = make_case(with_gelu ? "linear_input_grad gelu" : "linear_input_grad", size, dtype);
    const auto dy = op.input(dtype, {size.tokens, size.outputs}, random_values(), size.gap);
    const auto weight = op.input(dtype, {size.outputs, size.inputs}, random_values(0.5));
    const auto gelu_input =
        with_gelu ? op.input(dtype, {size.tokens, size.inputs}, random_values(2), size.gap) : none;
    const auto dx = op.output(dtype, {size.tokens, size.inputs}, size.gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearInputGrad{at[dy], at[weight], at[gelu_input], at[dx]});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_input_grad(at[dy], at[weight], at[gelu_input], at[dx]);
    };
    return op;
}

OpCase input_grad_added(const Size& size, DType dtype) {
    OpCase op = make_case("linear_input_grad accumulate", size, dtype);
    const auto dy = op.input(dtype, {size.tokens, size.outputs}, random_values(), size.gap);
    const auto weight = op.input(dtype, {size.outputs, size.inputs}, random_values(0.5));
    const auto dx = op.updated(dtype, {size.tokens, size.inputs}, random_values(3), size.gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearInputGrad{.dy = at[dy],
                                    .weight = at[weight],
                                    .gelu_input = {},
                                    .dx = at[dx],
                                    .accumulate = true});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_input_grad(at[dy], at[weight], at[none], at[dx],
                                     reference::Result::added);
    };
    return op;
}

OpCase weight_grad(const Size& size, DType dtype, bool with_bias, reference::Result result) {
    const bool added = result == reference::Result::added;
    OpCase op =
        make_case(text("linear_weight_grad", with_bias ? " bias" : "", added ? "" : " overwrites"),
                  size, dtype);
    const auto x = op.input(dtype, {size.tokens, size.inputs}, random_values(), size.gap);
    const auto dy = op.input(dtype, {size.tokens, size.outputs}, random_values(), size.gap);
    const Shape shape = {size.outputs, size.inputs};
    const auto dweight =
        added ? op.updated(DType::f32, shape, random_values(3)) : op.output(DType::f32, shape);
    const auto dbias = with_bias ? op.updated(DType::f32, {size.outputs}, random_values(3)) : none;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(LinearWeightGrad{.x = at[x],
                                     .dy = at[dy],
                                     .dweight = at[dweight],
                                     .dbias = at[dbias],
                                     .accumulate = added});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_weight_grad(at[x], at[dy], at[dweight], at[dbias], result);
    };
    return op;
}

OpCase bias_grad(const Size& size, DType dtype) {
    OpCase op = make_case("bias_grad", size, dtype);
    const auto dy = op.input(dtype, {size.tokens, size.outputs}, random_values());
    const auto dbias = op.updated(DType::f32, {size.outputs}, random_values());
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(BiasGrad{.dy = at[dy], .dbias = at[dbias]});
    };
    op.reference = [=](Arrays& at) { reference::bias_grad(at[dy], at[dbias]); };
    op.flops = 0;
    return op;
}

OpCase add_bias(const Size& size, DType dtype, DType y_dtype) {
    OpCase op = make_case(text("add_bias to ", name_of(y_dtype)), size, dtype);
    const auto y = op.updated(y_dtype, {size.tokens, size.outputs}, random_values());
    const auto bias = op.input(dtype, {size.outputs}, random_values());
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(AddBias{.y = at[y], .bias = at[bias]});
    };
    op.reference = [=](Arrays& at) { reference::add_bias(at[y], at[bias]); };
    op.flops = 0;
    return op;
}

}  // namespace

std::vector<OpCase> linear_cases() {
    using enum reference::Result;
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const Size& size : sizes) {
            for (const bool extra : {false, true}) {
                cases.push_back(forward(size, dtype, extra));
                if (size.use == Use::check) cases.push_back(forward_and_gelu(size, dtype, extra));
                if (size.gap > 0) cases.push_back(forward_and_swiglu(size, dtype, extra));
                if (dtype != DType::f32) cases.push_back(forward_to_fp32(size, dtype, extra));
                cases.push_back(input_grad(size, dtype, extra));
                cases.push_back(weight_grad(size, dtype, extra, added));
                if (size.use == Use::check)
                    cases.push_back(weight_grad(size, dtype, extra, stored));
            }
            if (size.use == Use::check) {
                cases.push_back(forward_added(size, dtype));
                cases.push_back(input_grad_added(size, dtype));
            }
            if (size.gap > 0) cases.push_back(input_grad_through_swiglu(size, dtype));
            cases.push_back(bias_grad(size, dtype));
            cases.push_back(add_bias(size, dtype, dtype));
            if (dtype != DType::f32) cases.push_back(add_bias(size, dtype, DType::f32));
        }
    }
    return cases;
}

}  // namespace gptrain
