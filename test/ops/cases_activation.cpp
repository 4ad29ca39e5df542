#include "cases.h"

namespace gptrain {
namespace {

struct Size {
    std::int64_t tokens, ffn;
    bool large = false;
};

constexpr Size sizes[] = {{1, 1}, {3, 5}, {7, 64}, {2, 1031}, {256, 3072, true}};

const char* word_of(Activation activation) {
    switch (activation) {
        case Activation::gelu: return "gelu";
        case Activation::gelu_erf: return "gelu_erf";
        case Activation::relu: return "relu";
        case Activation::relu2: return "relu2";
        case Activation::geglu: return "geglu";
        case Activation::swiglu: return "swiglu";
        case Activation::clamped_swiglu: break;
    }
    return "clamped_swiglu";
}

OpCase make_case(const std::string& op, Activation activation, const Size& size, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    limits.sequences = 1;
    limits.seq_length = size.tokens;
    limits.widest = input_width(activation, size.ffn);
    OpCase result(
        text(op, " ", word_of(activation), " ", name_of(dtype), " T", size.tokens, " F", size.ffn),
        limits);
    result.large = size.large;
    return result;
}

/// Mostly where the functions bend, sometimes far out, or at the limits of clamped_swiglu.
Values activation_inputs() {
    return [normal = random_values(2)](std::int64_t i, PhiloxKey stream) {
        const double x = normal(i, stream);
        if (i % 13 == 12) return x < 0 ? -7.0 : 7.0;
        return i % 11 == 10 ? 20 * x : x;
    };
}

/// Outputs in addition to the formula's.
struct Variant {
    const char* name;
    bool in_place = false;
    bool amax = false;
    bool fp8 = false;  ///< forward, which then also writes it alone; backward
};

OpCase forward(Activation activation, const Size& size, DType dtype, const Variant& variant) {
    OpCase op = make_case(text("activation_forward", variant.name), activation, size, dtype);
    const auto u =
        op.input(dtype, {size.tokens, input_width(activation, size.ffn)}, activation_inputs());
    const Shape shape = {size.tokens, size.ffn};
    const auto y = op.output(dtype, shape);
    const auto amax = variant.amax ? op.updated(DType::f32, {1}, constant(0)) : none;
    const Rows8 beside = variant.fp8 ? Rows8(op, shape) : Rows8();
    const Rows8 alone = variant.fp8 ? Rows8(op, shape) : Rows8();
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(ActivationForward{activation, at[u], at[y], at[amax], beside.matrix(at)});
        if (variant.fp8)
            backend.run(ActivationForward{activation, at[u], {}, {}, alone.matrix(at)});
    };
    op.reference = [=](Arrays& at) {
        beside.reference(at, y);
        alone.reference(at, y);
        reference::activation_forward(activation, at[u], at[y]);
        reference::update_amax(at.result(y), at[amax]);
    };
    return op;
}

OpCase backward(Activation activation, const Size& size, DType dtype, const Variant& variant) {
    OpCase op = make_case(text("activation_backward", variant.name), activation, size, dtype);
    const Shape input_shape = {size.tokens, input_width(activation, size.ffn)};
    const Shape output_shape = {size.tokens, size.ffn};
    const auto u = op.input(dtype, input_shape, activation_inputs());
    const auto dy = variant.in_place ? op.updated(dtype, output_shape, random_values())
                                     : op.input(dtype, output_shape, random_values());
    const auto du = variant.in_place ? dy : op.output(dtype, input_shape);
    const auto amax = variant.amax ? op.updated(DType::f32, {1}, constant(0)) : none;
    const Rows8 du8 = variant.fp8 ? Rows8(op, input_shape) : Rows8();
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(
            ActivationBackward{activation, at[u], at[dy], at[du], at[amax], du8.matrix(at)});
    };
    op.reference = [=](Arrays& at) {
        du8.reference(at, du);
        const Array gradient = at[dy];
        reference::activation_backward(activation, at[u], gradient, at[du]);
        reference::update_amax(at.result(du), at[amax]);
    };
    return op;
}

}  // namespace

std::vector<OpCase> activation_cases() {
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const Size& size : sizes) {
            for (const auto activation : {Activation::gelu, Activation::gelu_erf,
                                          Activation::swiglu, Activation::clamped_swiglu,
                                          Activation::relu, Activation::relu2, Activation::geglu}) {
                for (const Variant& variant : {Variant{""}, Variant{", amax", false, true}}) {
                    cases.push_back(forward(activation, size, dtype, variant));
                    cases.push_back(backward(activation, size, dtype, variant));
                }
            }
            cases.push_back(backward(Activation::gelu, size, dtype, {" in place", true}));
            cases.push_back(
                backward(Activation::gelu, size, dtype, {" in place, amax", true, true}));
        }
    }
    // Rows that end within a warp of pieces, and in the second block of columns.
    for (const Size& size : {Size{5, 128}, Size{2, 2176}}) {
        for (const auto activation : {Activation::gelu, Activation::swiglu, Activation::relu2}) {
            const Variant in_fp8 = {", FP8", false, false, true};
            cases.push_back(forward(activation, size, DType::bf16, in_fp8));
            cases.push_back(backward(activation, size, DType::bf16, in_fp8));
        }
        cases.push_back(
            backward(Activation::gelu, size, DType::bf16, {" in place, FP8", true, false, true}));
    }
    return cases;
}

}  // namespace gptrain
