#include "base/at.h"
#include "cases.h"

namespace gptrain {
namespace {

/// Some rows and columns of a matrix, or of one of each expert.
struct Cut {
    std::int64_t rows, columns;  ///< of the whole matrix
    std::int64_t first_row = 0, part_rows = 0;
    std::int64_t first_column = 0, part_columns = 0;
    std::int64_t matrices = 1;
    bool large = false;

    static Cut whole(std::int64_t rows, std::int64_t columns, bool large = false) {
        return {.rows = rows,
                .columns = columns,
                .part_rows = rows,
                .part_columns = columns,
                .large = large};
    }
    std::int64_t elements() const { return matrices * part_rows * part_columns; }
    std::int64_t factors() const { return div_ceil(rows * columns, std::int64_t{64 * 256}); }
    /// Where element `i` of the part is in its whole matrix.
    std::int64_t place(std::int64_t i) const {
        const std::int64_t row = first_row + i / part_columns % part_rows;
        return row * columns + first_column + i % part_columns;
    }
    Nf4Part part() const {
        const std::int64_t blocks = part_rows * part_columns / 64;
        const bool cut = part_columns < columns;
        return {.blocks = blocks,
                .first = place(0) / 64,
                .row_blocks = cut ? part_columns / 64 : blocks,
                .skipped = cut ? (columns - part_columns) / 64 : 0,
                .factors = factors()};
    }
    std::string name() const {
        return text(matrices, " x ", part_rows, " x ", part_columns, " of ", rows, " x ", columns);
    }
};

// Blocks end inside rows of 96 and of 32 elements. More than 256 blocks have several factors.
const Cut matrices[] = {Cut::whole(1, 64),          Cut::whole(6, 32),
                        Cut::whole(10, 96),         {8, 96, 2, 4, 0, 96},
                        {9, 256, 0, 9, 64, 128},    {150, 192, 0, 150, 128, 64},
                        {301, 64, 200, 101, 0, 64}, Cut::whole(8192, 4096, true)};

struct Size {
    std::int64_t tokens;
    Cut weight;
    std::int64_t gap = 0;
};
const Size sizes[] = {{1, Cut::whole(1, 64)},          {2, Cut::whole(17, 64)},
                      {3, Cut::whole(9, 192)},         {5, Cut::whole(12, 320), 3},
                      {8, {40, 512, 0, 40, 192, 320}}, {1, Cut::whole(3072, 768, true)},
                      {8, Cut::whole(3072, 768, true)}};

OpCase make_case(std::string_view op, const std::string& rest, DType dtype, bool large) {
    OpLimits limits;
    limits.compute = dtype;
    OpCase result(text(op, " ", name_of(dtype), " ", rest), limits);
    result.large = large;
    return result;
}

/// The operands of a matrix in NF4.
struct Matrix {
    Cut cut;
    Operand codes, scales, factors;

    Matrix(OpCase& op, const Cut& from, bool nested)
        : cut(from),
          codes(op.input(DType::u8, {cut.elements() / 2}, random_integers(0, 256))),
          scales(nested ? op.input(DType::u8, {cut.elements() / 64}, random_integers(0, 256))
                        : op.input(DType::f32, {cut.elements() / 64}, random_values(0.01))),
          factors(nested ? op.input(DType::f32, {nf4_factors_size(cut.matrices, cut.factors())},
                                    random_values(0.1))
                         : none) {}

    Nf4Matrix on(const Tensors& at, const Shape& shape) const {
        return {.shape = shape,
                .codes = at[codes],
                .scales = at[scales],
                .factors = at[factors],
                .part = cut.part()};
    }

    /// All elements of the part.
    Array values(Arrays& at, const Shape& shape) const {
        Array result(shape);
        const std::int64_t of_matrix = cut.part_rows * cut.part_columns;
        for (std::int64_t i = 0; i < cut.elements(); ++i) {
            const std::int64_t pair = at[codes].integer(i / 2);
            const std::int64_t code = i % 2 == 0 ? pair / 16 : pair % 16;
            Bounded scale = at[scales](i / 64);
            if (factors != none) {
                const std::int64_t own = 256 + i / of_matrix * (1 + cut.factors());
                scale = at[factors](at[scales].integer(i / 64)) *
                            at[factors](own + 1 + cut.place(i) / (64 * 256)) +
                        at[factors](own);
            }
            result(i) = Bounded(gptrain::at(nf4_values, code)) * scale;
        }
        return result;
    }
};

std::string_view kind(bool nested) {
    return nested ? " nested" : "";
}

OpCase from_nf4(const Cut& size, DType dtype, bool nested) {
    OpCase op = make_case(text("from_nf4", kind(nested)), size.name(), dtype, size.large);
    const Matrix x(op, size, nested);
    const Shape shape = {size.part_rows, size.part_columns};
    const auto out = op.output(dtype, shape);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(FromNf4{.x = x.on(at, shape), .out = at[out]});
    };
    op.reference = [=](Arrays& at) { at[out].values() = x.values(at, shape).values(); };
    return op;
}

OpCase grouped_from_nf4(Cut size, const std::vector<double>& offsets, DType dtype, bool nested) {
    size.matrices = std::ssize(offsets) - 1;
    OpCase op = make_case(text("grouped_from_nf4", kind(nested)), size.name(), dtype, size.large);
    const Matrix x(op, size, nested);
    const auto list = op.input(DType::i32, {size.matrices + 1}, given(offsets));
    const Shape shape = {size.matrices, size.part_rows, size.part_columns};
    const auto out = op.updated(dtype, {size.elements()}, random_values());
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(
            GroupedFromNf4{.x = x.on(at, shape), .offsets = at[list], .out = at[out].view(shape)});
    };
    op.reference = [=](Arrays& at) {
        const Array values = x.values(at, shape);
        const std::int64_t of_matrix = size.part_rows * size.part_columns;
        for (std::int64_t i = 0; i < size.elements(); ++i) {
            const std::int64_t expert = i / of_matrix;
            if (gptrain::at(offsets, expert) < gptrain::at(offsets, expert + 1))
                at[out](i) = values(i);
        }
    };
    return op;
}

OpCase forward(const Size& size, DType dtype, bool with_bias, bool nested) {
    const Cut& cut = size.weight;
    OpCase op =
        make_case(text("nf4_linear_forward", with_bias ? " bias" : "", kind(nested)),
                  text("T", size.tokens, " ", cut.name(), " gap ", size.gap), dtype, cut.large);
    const auto x = op.input(dtype, {size.tokens, cut.part_columns}, random_values(), size.gap);
    const Matrix weight(op, cut, nested);
    const Shape shape = {cut.part_rows, cut.part_columns};
    const auto bias = with_bias ? op.input(dtype, {cut.part_rows}, random_values()) : none;
    const auto y = op.output(dtype, {size.tokens, cut.part_rows}, size.gap);
    op.run = [=](Backend& backend, const Tensors& at) {
        backend.run(Nf4LinearForward{
            .x = at[x], .weight = weight.on(at, shape), .bias = at[bias], .y = at[y]});
    };
    op.reference = [=](Arrays& at) {
        reference::linear_forward(at[x], weight.values(at, shape), at[bias], at[y]);
    };
    return op;
}

}  // namespace

std::vector<OpCase> nf4_cases() {
    std::vector<OpCase> cases;
    for (const DType dtype : compute_dtypes) {
        for (const bool nested : {false, true}) {
            for (const Cut& size : matrices)
                cases.push_back(from_nf4(size, dtype, nested));
            cases.push_back(grouped_from_nf4(Cut::whole(2, 96), {0, 0, 4, 4, 5}, dtype, nested));
            cases.push_back(
                grouped_from_nf4({70, 512, 0, 70, 64, 320}, {0, 2, 2, 3}, dtype, nested));
            for (const Size& size : sizes)
                cases.push_back(forward(size, dtype, size.tokens > 2, nested));
        }
    }
    return cases;
}

}  // namespace gptrain
