#include "cases.h"

namespace gptrain {
namespace {

OpCase make_case(std::string name, DType dtype) {
    OpLimits limits;
    limits.compute = dtype;
    return OpCase(std::move(name), limits);
}

/// Some of the ranges begin where vectors of floats do not.
OpCase clear(const std::vector<std::int64_t>& lengths) {
    OpCase op = make_case(text("clear of ", lengths.size()), DType::f32);
    std::vector<Operand> ranges;
    for (const std::int64_t length : lengths) {
        const std::int64_t begin = std::ssize(ranges) % 3;
        ranges.push_back(op.part(Role::output, op.storage(DType::f32, {begin + length}),
                                 [=](const Tensor& whole) { return whole.slice(0, begin, length); },
                                 {}));
        op.large |= length > 1000000;
    }
    op.run = [=](Backend& backend, const Tensors& at) {
        std::vector<Tensor> values;
        for (const Operand range : ranges)
            values.push_back(at[range]);
        backend.run(Clear{.values = values});
    };
    op.reference = [=](Arrays& at) {
        for (const Operand range : ranges)
            at[range] = Array(at[range].shape(), DType::f32);
    };
    return op;
}

OpCase square_sum(const std::vector<std::int64_t>& lengths) {
    OpCase op = make_case(text("square_sum of ", lengths.size()), DType::f32);
    std::vector<Operand> inputs;
    for (const std::int64_t length : lengths) {
        inputs.push_back(op.input(DType::f32, {length}, random_values(2)));
        op.large |= length > 1000000;
    }
    const auto total = op.updated(DType::f64, {1}, constant(1.5));
    op.run = [=](Backend& backend, const Tensors& at) {
        std::vector<Tensor> tensors;
        for (const Operand input : inputs)
            tensors.push_back(at[input]);
        backend.run(SquareSum{.addends = tensors, .total = at[total]});
    };
    op.reference = [=](Arrays& at) {
        Sum sum;
        sum.add(at[total](0));
        for (const Operand input : inputs) {
            for (const Bounded& x : at[input].values())
                sum.add(x * x);
        }
        at[total](0) = sum.result();
    };
    return op;
}

/// `begin`: place of the first element in its storage, which decides its alignment.
OpCase add(DType dtype, std::int64_t begin, std::int64_t count) {
    OpCase op = make_case(text("add ", name_of(dtype), " ", count, " from ", begin), dtype);
    const auto part = [&](Role role) {
        return op.part(
            role, op.storage(dtype, {begin + count}),
            [=](const Tensor& whole) { return whole.slice(0, begin, count); }, random_values());
    };
    const auto x = part(Role::updated);
    const auto y = part(Role::input);
    op.large = count > 1000000;
    op.run = [=](Backend& backend, const Tensors& at) { backend.run(Add{.x = at[x], .y = at[y]}); };
    op.reference = [=](Arrays& at) {
        for (std::int64_t i = 0; i < count; ++i)
            at[x](i) += at[y](i);
    };
    return op;
}

OpCase sum_rows(DType dtype, DType result, std::int64_t rows, std::int64_t width) {
    OpCase op = make_case(
        text("sum_rows ", name_of(dtype), " to ", name_of(result), " ", rows, " x ", width), dtype);
    const auto from = op.input(dtype, {rows, width}, random_values());
    const auto to = op.output(result, {width});
    op.large = rows * width > 1000000;
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(SumRows{.to = at[to], .rows = at[from]});
    };
    op.reference = [=](Arrays& at) {
        for (std::int64_t i = 0; i < width; ++i) {
            Sum sum;
            for (std::int64_t row = 0; row < rows; ++row)
                sum.add(at[from](row, i));
            at[to](i) = sum.result();
        }
    };
    return op;
}

struct Piece {
    std::int64_t length;
    bool decay;
    Operand main_param = none, main_grad = none, exp_avg = none, exp_avg_sq = none, weight = none;
};

OpCase adamw(std::vector<Piece> pieces, DType dtype, bool skip, std::int64_t updates) {
    OpCase op = make_case(text("adamw ", name_of(dtype), " pieces ", pieces.size(), " first of ",
                               pieces[0].length, skip ? " skip" : "", " updates ", updates),
                          dtype);
    op.state.updates = updates;
    op.state.learning_rate = 0.013;
    op.state.grad_factor = 0.37;
    op.state.skip = skip ? Skip::not_finite : Skip::none;
    for (Piece& piece : pieces) {
        const Shape shape = {piece.length};
        piece.main_param = op.updated(DType::f32, shape, random_values());
        piece.main_grad = op.input(DType::f32, shape, random_values(0.1));
        piece.exp_avg = op.updated(DType::f32, shape, random_values(0.03));
        piece.exp_avg_sq = op.updated(
            DType::f32, shape, [normal = random_values(0.03)](std::int64_t i, PhiloxKey stream) {
                return normal(i, stream) * normal(i, stream);
            });
        if (dtype != DType::f32) piece.weight = op.updated(dtype, shape, random_values());
        op.large |= piece.length > 1000000;
    }
    const AdamWConstants constants = {0.87, 0.96, 1e-6, 0.2};
    op.run = [=](Backend& backend, const Tensors& at) {
        std::vector<AdamWPiece> views;
        for (const Piece& piece : pieces) {
            views.push_back({at[piece.main_param], at[piece.main_grad], at[piece.exp_avg],
                             at[piece.exp_avg_sq], at[piece.weight], piece.decay});
        }
        backend.run(AdamW{.pieces = views, .constants = constants, .step = at.step});
    };
    op.reference = [=, state = op.state](Arrays& at) {
        for (const Piece& piece : pieces) {
            if (!skip) {
                reference::adamw(at[piece.main_param], at[piece.main_grad], at[piece.exp_avg],
                                 at[piece.exp_avg_sq], piece.decay, constants, state);
            }
            at[piece.weight].values() = at[piece.main_param].values();
        }
    };
    return op;
}

}  // namespace

std::vector<OpCase> optimizer_cases() {
    std::vector<OpCase> cases = {square_sum({1}),      square_sum({3, 1000, 17}),
                                 square_sum({100003}), square_sum({38597376}),
                                 clear({1}),           clear({3, 1000, 17, 40003}),
                                 clear({38597376}),    clear(std::vector<std::int64_t>(150, 70))};
    for (const DType dtype : compute_dtypes) {
        cases.push_back(add(dtype, 0, 1));
        cases.push_back(add(dtype, 0, 4107));
        cases.push_back(add(dtype, 3, 4107));
        cases.push_back(add(dtype, 0, 38597376));
        cases.push_back(sum_rows(dtype, DType::f32, 1, 24));
        cases.push_back(sum_rows(dtype, DType::f32, 3, 1000));
        cases.push_back(sum_rows(dtype, DType::f32, 8, 4107));
        cases.push_back(sum_rows(dtype, DType::f32, 8, 4824672));
        if (dtype != DType::f32) {
            cases.push_back(sum_rows(dtype, dtype, 3, 1000));
            cases.push_back(sum_rows(dtype, dtype, 8, 4107));
        }
        for (const bool skip : {false, true}) {
            cases.push_back(adamw({{1, true}}, dtype, skip, 1));
            cases.push_back(adamw({{7, false}, {1000, true}, {33, false}}, dtype, skip, 3));
            cases.push_back(adamw({{100003, true}}, dtype, skip, 100000));
        }
        cases.push_back(adamw({{38597376, true}}, dtype, false, 3));
    }
    return cases;
}

}  // namespace gptrain
