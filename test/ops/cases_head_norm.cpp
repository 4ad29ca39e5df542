#include "cases.h"

namespace gptrain {
namespace {

struct Size {
    std::int64_t tokens, heads, dim;
    bool large = false;
};

// Head sizes with whole pieces of 16 bytes and without.
constexpr Size sizes[] = {{1, 1, 1},   {3, 2, 20},  {7, 5, 64},           {5, 3, 80},
                          {70, 4, 96}, {9, 2, 256}, {4096, 32, 128, true}};

constexpr float eps = 1e-3f;

/// The case of `op` on heads of a packed GEMM output, whose last two are those of k and v.
struct HeadCase {
    HeadCase(std::string_view op_name, const Size& size, DType dtype, bool in_place)
        : op(text(op_name, in_place ? " in place " : " ", name_of(dtype), " T", size.tokens, " N",
                  size.heads, " D", size.dim),
             limits_of(size, dtype)),
          size_(size),
          dtype_(dtype) {
        op.large = size.large;
    }

    Operand heads(Role role, const Values& values = Values()) {
        const Size& size = size_;
        const std::size_t packed = op.storage(dtype_, {size.tokens, (size.heads + 2) * size.dim});
        const View view = [size](const Tensor& all) {
            return all.slice(1, 0, size.heads * size.dim).view({size.tokens, size.heads, size.dim});
        };
        return op.part(role, packed, view, values);
    }

    OpCase op;

private:
    static OpLimits limits_of(const Size& size, DType dtype) {
        OpLimits limits;
        limits.compute = dtype;
        limits.sequences = 1;
        limits.seq_length = size.tokens;
        limits.heads = size.heads;
        limits.groups = 1;
        limits.head_dim = size.dim;
        return limits;
    }

    Size size_;
    DType dtype_;
};

OpCase forward(const Size& size, DType dtype, bool in_place) {
    HeadCase made("head_norm_forward", size, dtype, in_place);
    OpCase& op = made.op;
    const auto x = made.heads(in_place ? Role::updated : Role::input, random_values());
    const auto y = in_place ? x : made.heads(Role::output);
    const auto weight = op.input(dtype, {size.dim}, random_values(0.5, 1));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(HeadNormForward{at[x], at[weight], eps, at[y]});
    };
    op.reference = [=](Arrays& at) {
        const Array before = at[x];
        reference::head_norm_forward(eps, before, at[weight], at[y]);
    };
    return op;
}

OpCase backward(const Size& size, DType dtype, bool in_place, bool frozen = false) {
    HeadCase made("head_norm_backward", size, dtype, in_place);
    OpCase& op = made.op;
    if (frozen) op.name += ", frozen";
    const auto dy = made.heads(in_place ? Role::updated : Role::input, random_values());
    const auto x = made.heads(Role::input, random_values());
    const auto dx = in_place ? dy : made.heads(Role::output);
    const auto weight = op.input(dtype, {size.dim}, random_values(0.5, 1));
    const auto dweight = frozen ? none : op.updated(DType::f32, {size.dim}, random_values());
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(HeadNormBackward{at[dy], at[x], at[weight], eps, at[dx], at[dweight]});
    };
    op.reference = [=](Arrays& at) {
        const Array gradient = at[dy];
        reference::head_norm_backward(eps, gradient, at[x], at[weight], at[dx], at[dweight]);
    };
    return op;
}

}  // namespace

std::vector<OpCase> head_norm_cases() {
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const Size& size : sizes) {
            for (const bool in_place : {false, true}) {
                cases.push_back(forward(size, dtype, in_place));
                cases.push_back(backward(size, dtype, in_place));
            }
            cases.push_back(backward(size, dtype, true, true));
        }
    }
    return cases;
}

}  // namespace gptrain
