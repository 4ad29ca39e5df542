#include "cases.h"

namespace gptrain {
namespace {

struct Size {
    std::int64_t tokens, width;
    bool large = false;
};

// Rows with whole pieces of 16 bytes and without, and longer than a warp reads at once.
constexpr Size sizes[] = {{1, 1}, {3, 20}, {7, 67}, {70, 264}, {9, 2056}, {4096, 4096, true}};

constexpr float eps = 1e-3f;
constexpr std::int64_t ranks = 2;

/// The case of `op` on rows of a wider matrix, as the queries of a packed GEMM output are.
struct RowCase {
    RowCase(std::string_view op_name, const Size& size, DType dtype)
        : op(text(op_name, " ", name_of(dtype), " T", size.tokens, " W", size.width),
             limits_of(size, dtype)),
          size_(size),
          dtype_(dtype) {
        op.large = size.large;
    }

    Operand rows(Role role, const Values& values = Values()) {
        const Size& size = size_;
        const std::size_t packed = op.storage(dtype_, {size.tokens, size.width + 8});
        const View view = [size](const Tensor& all) { return all.slice(1, 0, size.width); };
        return op.part(role, packed, view, values);
    }
    /// A sum over the features of all ranks.
    Operand sums(double deviation, double mean) {
        return op.input(DType::f32, {size_.tokens}, random_values(deviation, mean));
    }

    OpCase op;

private:
    static OpLimits limits_of(const Size& size, DType dtype) {
        OpLimits limits;
        limits.compute = dtype;
        limits.sequences = 1;
        limits.seq_length = size.tokens;
        limits.shared_norm = size.width;
        return limits;
    }

    Size size_;
    DType dtype_;
};

OpCase dots(const Size& size, DType dtype, bool weighted) {
    RowCase made(weighted ? "row_dots weighted" : "row_dots", size, dtype);
    OpCase& op = made.op;
    const auto x = made.rows(Role::input, random_values());
    const auto z = weighted ? made.rows(Role::input, random_values()) : x;
    const auto weight = weighted ? op.input(dtype, {size.width}, random_values(0.5, 1)) : none;
    const auto dots = op.output(DType::f32, {size.tokens});
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(RowDots{at[x], at[z], at[weight], at[dots]});
    };
    op.reference = [=](Arrays& at) {
        for (std::int64_t t = 0; t < size.tokens; ++t) {
            Sum sum;
            for (std::int64_t i = 0; i < size.width; ++i)
                sum.add(at[x](t, i) * at[z](t, i) * (weighted ? at[weight](i) : Bounded(1)));
            at[dots](t) = sum.result();
        }
    };
    return op;
}

Bounded rstd_of(const Bounded& squares, std::int64_t width) {
    return 1.0 /
           sqrt(squares / Bounded(static_cast<double>(width)) + Bounded(static_cast<double>(eps)));
}

OpCase forward(const Size& size, DType dtype, bool in_place) {
    RowCase made(in_place ? "row_norm_forward in place" : "row_norm_forward", size, dtype);
    OpCase& op = made.op;
    const std::int64_t width = ranks * size.width;
    const auto x = made.rows(in_place ? Role::updated : Role::input, random_values());
    const auto y = in_place ? x : made.rows(Role::output);
    const auto weight = op.input(dtype, {size.width}, random_values(0.5, 1));
    const auto squares = made.sums(0.1 * static_cast<double>(width), static_cast<double>(width));
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(RowNormForward{at[x], at[weight], at[squares], width, eps, at[y]});
    };
    op.reference = [=](Arrays& at) {
        const Array before = at[x];
        for (std::int64_t t = 0; t < size.tokens; ++t) {
            const Bounded rstd = rstd_of(at[squares](t), width);
            for (std::int64_t i = 0; i < size.width; ++i)
                at[y](t, i) = before(t, i) * rstd * at[weight](i);
        }
    };
    return op;
}

OpCase backward(const Size& size, DType dtype, bool in_place, bool frozen = false) {
    RowCase made(text("row_norm_backward", in_place ? " in place" : "", frozen ? " frozen" : ""),
                 size, dtype);
    OpCase& op = made.op;
    const std::int64_t width = ranks * size.width;
    const auto dy = made.rows(in_place ? Role::updated : Role::input, random_values());
    const auto x = made.rows(Role::input, random_values());
    const auto dx = in_place ? dy : made.rows(Role::output);
    const auto weight = op.input(dtype, {size.width}, random_values(0.5, 1));
    const auto squares = made.sums(0.1 * static_cast<double>(width), static_cast<double>(width));
    const auto dots = made.sums(static_cast<double>(width), 0);
    const auto dweight = frozen ? none : op.updated(DType::f32, {size.width}, random_values());
    op.run = [=](Backend& backend, const Tensors& at) {
        const RowNormForward forward = {at[x], at[weight], at[squares], width, eps, {}};
        backend.run(RowNormBackward{forward, at[dy], at[dots], at[dx], at[dweight]});
    };
    op.reference = [=](Arrays& at) {
        const Array gradient = at[dy];
        std::vector<Sum> sums(static_cast<std::size_t>(size.width));
        for (std::int64_t t = 0; t < size.tokens; ++t) {
            const Bounded rstd = rstd_of(at[squares](t), width);
            const Bounded projection = rstd * at[dots](t) / Bounded(static_cast<double>(width));
            for (std::int64_t i = 0; i < size.width; ++i) {
                const Bounded normalised = at[x](t, i) * rstd;
                sums[static_cast<std::size_t>(i)].add(gradient(t, i) * normalised);
                at[dx](t, i) = rstd * (gradient(t, i) * at[weight](i) - normalised * projection);
            }
        }
        if (frozen) return;
        for (std::int64_t i = 0; i < size.width; ++i) {
            Sum& sum = sums[static_cast<std::size_t>(i)];
            sum.add(at[dweight](i));
            at[dweight](i) = sum.result();
        }
    };
    return op;
}

}  // namespace

std::vector<OpCase> row_norm_cases() {
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const Size& size : sizes) {
            for (const bool weighted : {false, true})
                cases.push_back(dots(size, dtype, weighted));
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
