// How the GEMM kernel for sm_90a divides GEMMs, and which ones it takes; nothing is computed.
#include "cuda/gemm/sm90_plan.h"

#include "catch.h"
#include "cuda/gemm/plan.h"

namespace gptrain::cuda {
namespace {

using Kind = GemmPart::Kind;

constexpr std::int64_t multiprocessors = 132;
constexpr std::int64_t workspace = std::int64_t{32} << 20;

std::byte* address(std::int64_t number) {
    return reinterpret_cast<std::byte*>(number << 40);
}

Matrix matrix(std::int64_t number, DType dtype, std::int64_t rows, std::int64_t cols) {
    return Matrix(Tensor(address(number), dtype, {rows, cols}));
}

/// The gradient of a weight [O, I] over T tokens.
Gemm weight_gradient(std::int64_t outputs, std::int64_t inputs, std::int64_t tokens = 65536) {
    return {.a = matrix(1, DType::bf16, tokens, outputs).transposed(),
            .b = matrix(2, DType::bf16, tokens, inputs),
            .c = matrix(3, DType::f32, outputs, inputs),
            .accumulate = true};
}

Gemm forward(DType dtype = DType::bf16, std::int64_t inputs = 64, std::int64_t outputs = 48) {
    return {.a = matrix(1, dtype, 32, inputs),
            .b = matrix(2, dtype, outputs, inputs).transposed(),
            .c = matrix(3, dtype, 32, outputs)};
}

Gemm input_gradient() {
    return {.a = matrix(1, DType::bf16, 32, 48),
            .b = matrix(2, DType::bf16, 48, 64),
            .c = matrix(3, DType::bf16, 32, 64),
            .gelu_input = matrix(4, DType::bf16, 32, 64)};
}

double fill(const Gemm& gemm, std::int64_t parts) {
    const std::int64_t units = sm90::UnitPlan(gemm, parts).units();
    const std::int64_t clusters = multiprocessors / sm90::cluster_blocks;
    return static_cast<double>(units) / static_cast<double>(div_ceil(units, clusters) * clusters);
}

}  // namespace

TEST_CASE("weight gradients of GPT-2 124M fill the waves that the design says", "[sm90]") {
    // Q, K and V; the projection; both of the MLP.
    const auto [outputs, inputs, tiles] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t>(
        {{2304, 768, 54}, {768, 768, 18}, {3072, 768, 72}, {768, 3072, 72}}));
    const Gemm gemm = weight_gradient(outputs, inputs);
    const sm90::UnitPlan plan(gemm, 7);
    CHECK(plan.tiles() == tiles);
    CHECK(fill(gemm, 7) > 0.95);
    CHECK(plan.sums() == tiles * 128 * 256);
    const auto parts = sm90::parts_to_try(gemm, multiprocessors, workspace);
    REQUIRE(parts.size() == 3);
    CHECK(parts[0] == 1);
    CHECK(fill(gemm, parts[1]) > 0.95);
}

TEST_CASE("the summed dim is divided only where that shortens the waves and has room", "[sm90]") {
    // Many tiles; one short sum; no room.
    CHECK(sm90::parts_to_try(weight_gradient(50304, 768), multiprocessors, workspace) ==
          std::vector<std::int64_t>{1});
    CHECK(sm90::parts_to_try(weight_gradient(768, 768, 64), multiprocessors, workspace) ==
          std::vector<std::int64_t>{1});
    CHECK(sm90::parts_to_try(weight_gradient(3072, 768), multiprocessors, 1 << 20) ==
          std::vector<std::int64_t>{1});
    CHECK(sm90::parts_to_try(forward(), multiprocessors, workspace) ==
          std::vector<std::int64_t>{1});
    CHECK(sm90::UnitPlan(weight_gradient(768, 768, 128), 7).parts == 2);
}

TEST_CASE("the GEMM kernel for sm_90a takes what bulk copies can address", "[sm90]") {
    CHECK(sm90::covers_gemm(forward()));
    CHECK(sm90::covers_gemm(forward(DType::f16)));
    CHECK_FALSE(sm90::covers_gemm(forward(DType::f32)));
    CHECK_FALSE(sm90::covers_gemm(forward(DType::bf16, 60)));
    CHECK_FALSE(sm90::covers_gemm(forward(DType::bf16, 64, 44)));
    CHECK(sm90::covers_gemm(input_gradient()));
    CHECK(sm90::covers_gemm(weight_gradient(48, 64, 33)));
    Gemm odd = forward();
    odd.a.data += 8;
    CHECK_FALSE(sm90::covers_gemm(odd));
    Gemm other = forward();
    other.gelu_input = matrix(4, DType::bf16, 32, 48);
    CHECK_FALSE(sm90::covers_gemm(other));
    other = input_gradient();
    other.c = matrix(3, DType::f32, 32, 64);
    CHECK_FALSE(sm90::covers_gemm(other));
    other = weight_gradient(48, 64);
    other.b = matrix(2, DType::bf16, 64, 65536).transposed();
    CHECK_FALSE(sm90::covers_gemm(other));
}

TEST_CASE("the GEMM kernel for sm_90a has the same columns of fc and gate in a tile", "[sm90]") {
    Gemm gemm = forward(DType::bf16, 64, 272);
    gemm.swiglu = matrix(4, DType::bf16, 32, 136);
    CHECK(sm90::covers_gemm(gemm));
    CHECK(sm90::UnitPlan(gemm, 1).columns == 2);
    gemm.c = matrix(3, DType::f32, 32, 272);
    CHECK_FALSE(sm90::covers_gemm(gemm));
    // The rows of gate's weight and the columns of gate begin at a piece of 16 bytes.
    gemm = forward(DType::bf16, 64, 264);
    gemm.swiglu = matrix(4, DType::bf16, 32, 132);
    CHECK_FALSE(sm90::covers_gemm(gemm));
    gemm = forward(DType::bf16, 64, 272);
    gemm.swiglu = matrix(4, DType::bf16, 32, 136);
    gemm.c.row_stride = 280;
    CHECK_FALSE(sm90::covers_gemm(gemm));

    Gemm gradient = input_gradient();
    gradient.gelu_input = {};
    gradient.swiglu_input = matrix(4, DType::bf16, 32, 128);
    gradient.swiglu_grad = matrix(5, DType::bf16, 32, 128);
    CHECK(sm90::covers_gemm(gradient));
    gradient.swiglu_grad.row_stride = 136;
    CHECK_FALSE(sm90::covers_gemm(gradient));
}

namespace {

Matrix fp8(std::int64_t number, DType dtype, std::int64_t rows, std::int64_t cols) {
    return Matrix(Tensor(address(number), dtype, {rows, cols}),
                  Tensor(address(number + 1), DType::f32, {1}));
}

/// Of a weight [O, I], as the recipe with one scale has them.
Gemm fp8_weight_gradient(std::int64_t outputs, std::int64_t inputs, std::int64_t tokens = 65536) {
    return {.a = fp8(1, DType::f8e5m2, outputs, tokens),
            .b = fp8(3, DType::f8e4m3, inputs, tokens).transposed(),
            .c = matrix(5, DType::f32, outputs, inputs)};
}

Gemm fp8_forward(std::int64_t inputs = 64) {
    return {.a = fp8(1, DType::f8e4m3, 32, inputs),
            .b = fp8(3, DType::f8e4m3, 48, inputs).transposed(),
            .c = matrix(5, DType::bf16, 32, 48),
            .fast_accumulation = true};
}

Gemm fp8_in_blocks() {
    Gemm gemm = fp8_forward(256);
    gemm.fast_accumulation = false;
    gemm.a = Matrix(Tensor(address(1), DType::f8e4m3, {32, 256}),
                    Tensor(address(2), DType::f32, fp8_row_scales(32, 256)));
    gemm.b = Matrix(Tensor(address(3), DType::f8e4m3, {128, 256}),
                    Tensor(address(4), DType::f32, fp8_block_scales(128, 256)))
                 .transposed();
    gemm.c = matrix(5, DType::bf16, 32, 128);
    return gemm;
}

/// A weight gradient in blocks of 1 x 128, the last of which is shorter.
Gemm fp8_in_strips(std::int64_t outputs = 32) {
    const auto strips = [](std::int64_t number, std::int64_t count) {
        return Matrix(Tensor(address(number), DType::f8e4m3, {count, 272}),
                      Tensor(address(number + 1), DType::f32, fp8_row_scales(count, 272)));
    };
    return {.a = strips(1, outputs),
            .b = strips(3, 48).transposed(),
            .c = matrix(5, DType::f32, outputs, 48),
            .accumulate = true};
}

}  // namespace

TEST_CASE("the GEMM kernel for sm_90a takes FP8 as the recipes have it", "[sm90]") {
    CHECK(sm90::covers_gemm(fp8_forward()));
    CHECK(sm90::covers_gemm(fp8_in_strips()));
    CHECK_FALSE(sm90::covers_gemm(fp8_in_strips(34)));
    CHECK(sm90::covers_gemm(fp8_weight_gradient(48, 64)));
    CHECK(sm90::covers_gemm(fp8_in_blocks()));
    Gemm gemm = fp8_forward();
    gemm.fast_accumulation = false;
    CHECK_FALSE(sm90::covers_gemm(gemm));
    CHECK_FALSE(sm90::covers_gemm(fp8_forward(72)));
    gemm = fp8_forward();
    gemm.gelu = matrix(6, DType::bf16, 32, 48);
    CHECK_FALSE(sm90::covers_gemm(gemm));
    gemm = fp8_forward();
    gemm.c = matrix(5, DType::f16, 32, 48);
    CHECK_FALSE(sm90::covers_gemm(gemm));
    gemm = fp8_weight_gradient(48, 64);
    gemm.b = fp8(3, DType::f8e5m2, 64, 65536).transposed();
    CHECK_FALSE(sm90::covers_gemm(gemm));
    // Both in blocks of 1 x 128.
    gemm = fp8_in_blocks();
    gemm.b = gemm.a.transposed();
    gemm.c = matrix(5, DType::bf16, 32, 32);
    CHECK_FALSE(sm90::covers_gemm(gemm));
    // Bulk copies of scales begin at multiples of 16 bytes.
    gemm = fp8_in_strips();
    ++gemm.b.scale;
    CHECK_FALSE(sm90::covers_gemm(gemm));
}

TEST_CASE("a step has 128 elements of FP8, and weight gradients are divided", "[sm90]") {
    CHECK(sm90::UnitPlan(fp8_weight_gradient(768, 768), 7).steps == 512);
    CHECK(sm90::parts_to_try(fp8_weight_gradient(768, 768), multiprocessors, workspace).size() ==
          3);
    CHECK(sm90::UnitPlan(fp8_in_strips(), 16).parts == 3);
    CHECK(sm90::may_divide(fp8_in_strips()));
    CHECK(sm90::parts_to_try(fp8_forward(65536), multiprocessors, workspace) ==
          std::vector<std::int64_t>{1});
}

TEST_CASE("a plan has the GEMM kernel for sm_90a where it is chosen, with its epilogue", "[sm90]") {
    GemmRules rules = {.device_major = 9,
                       .choose = [](const Gemm&) { return GemmChoice{.algorithm = Algorithm{7}}; },
                       .sm90 =
                           [](const Gemm&) {
                               return Sm90Choice{5, false};
                           }};
    Gemm with_gelu = forward();
    with_gelu.gelu = matrix(4, DType::bf16, 32, 48);
    const GemmPlan plan = plan_of(with_gelu, rules);
    REQUIRE(plan.size() == 1);
    CHECK(plan[0].kind == Kind::sm90);
    CHECK(plan[0].sm90_parts == 5);
    CHECK(plan[0].gemm.gelu.data == with_gelu.gelu.data);
    // The rows of a are summed by another kernel, or in this one.
    Gemm with_sums = weight_gradient(48, 64);
    with_sums.a_sums = reinterpret_cast<float*>(address(5));
    with_sums.a_totals = reinterpret_cast<float*>(address(6));
    const GemmPlan sums = plan_of(with_sums, rules);
    REQUIRE(sums.size() == 2);
    CHECK(sums[0].kind == Kind::sm90);
    CHECK(sums[0].gemm.a_sums == nullptr);
    CHECK(sums[1].kind == Kind::row_sums);
    CHECK(sums[1].gemm.a_totals == with_sums.a_totals);
    rules.sm90 = [](const Gemm&) { return Sm90Choice{5, true}; };
    const GemmPlan in_one = plan_of(with_sums, rules);
    REQUIRE(in_one.size() == 1);
    CHECK(in_one[0].kind == Kind::sm90);
    CHECK(in_one[0].gemm.a_totals == with_sums.a_totals);
    rules.sm90 = [](const Gemm&) { return Sm90Choice(); };
    CHECK(plan_of(forward(), rules)[0].kind == Kind::library);
}

TEST_CASE("the tuning table's word for the GEMM kernel for sm_90a is read back", "[sm90]") {
    CHECK(to_text(GemmChoice{.sm90 = {7, false}}) == "sm90:7");
    CHECK(to_text(GemmChoice{.sm90 = {7, true}}) == "sm90:7+sums");
    for (const bool sums_rows : {false, true}) {
        const Sm90Choice choice = choice_of(sums_rows ? "sm90:7+sums" : "sm90:7").sm90;
        CHECK(choice.parts == 7);
        CHECK(choice.sums_rows == sums_rows);
    }
    for (const char* word : {"sm90:", "sm90:0", "sm90:-1", "sm90:x", "sm90", "sm90:+sums",
                             "sm90:7+sum", "sm90:7sums+"}) {
        CHECK(choice_of(word).sm90.parts == 0);
        CHECK_FALSE(choice_of(word).algorithm);
    }
}

namespace {

/// E = 4 experts with up to 1000 rows together: fc and gate [48, 64].
GroupedGemm grouped(GroupedKind kind) {
    using enum GroupedKind;
    const auto tensor = [](std::int64_t number, DType dtype, const Shape& shape) {
        return Tensor(address(number), dtype, shape);
    };
    const Tensor x = tensor(1, DType::bf16, {1000, 64});
    const Tensor y = tensor(2, DType::bf16, {1000, 96});
    const Tensor weight = tensor(3, DType::bf16, {2, 4, 48, 64});
    const Tensor offsets = tensor(4, DType::i32, {5});
    if (kind == forward) return {.kind = kind, .a = x, .b = weight, .c = y, .offsets = offsets};
    if (kind == input_grad) return {.kind = kind, .a = y, .b = weight, .c = x, .offsets = offsets};
    return {.kind = kind,
            .a = y,
            .b = x,
            .c = tensor(3, DType::f32, {2, 4, 48, 64}),
            .offsets = offsets};
}

}  // namespace

TEST_CASE("the kernel for grouped GEMMs takes what bulk copies can address", "[sm90]") {
    using enum GroupedKind;
    for (const auto kind : {forward, input_grad, weight_grad}) {
        CAPTURE(static_cast<int>(kind));
        GroupedGemm gemm = grouped(kind);
        CHECK(sm90::covers_grouped(gemm));
        gemm.a = Tensor(gemm.a.data() + 8, DType::bf16, gemm.a.shape());
        CHECK_FALSE(sm90::covers_grouped(gemm));
        gemm.a = Tensor(address(1), DType::bf16, {0, gemm.a.size(1)});
        CHECK_FALSE(sm90::covers_grouped(gemm));
        gemm = grouped(kind);
        gemm.a = Tensor(address(1), DType::f32, gemm.a.shape());
        CHECK_FALSE(sm90::covers_grouped(gemm));
    }
    GroupedGemm odd = grouped(forward);
    odd.b = Tensor(address(3), DType::bf16, {2, 4, 44, 64});
    CHECK_FALSE(sm90::covers_grouped(odd));
    odd = grouped(weight_grad);
    odd.c = Tensor(address(3), DType::bf16, {2, 4, 48, 64});
    CHECK_FALSE(sm90::covers_grouped(odd));
}

TEST_CASE("units of grouped GEMMs are at most pairs that rows fill, and one for each expert",
          "[sm90]") {
    using enum GroupedKind;
    CHECK(sm90::most_grouped_units(grouped(forward)) == (3 + 4) * 2);
    CHECK(sm90::most_grouped_units(grouped(input_grad)) == 3 + 4);
    CHECK(sm90::most_grouped_units(grouped(weight_grad)) == 2 * 4);
}

TEST_CASE("the tuning table's key of grouped GEMMs has all that a choice depends on", "[sm90]") {
    using enum GroupedKind;
    GroupedGemm gemm = grouped(forward);
    CHECK(key_of(gemm) == "grouped:forward,bf16,2,4,48,64,1000,0,0,0");
    gemm.expected = 500;
    gemm.bias = Tensor(address(5), DType::bf16, {2, 4, 48});
    CHECK(key_of(gemm) == "grouped:forward,bf16,2,4,48,64,1000,500,1,0");
    CHECK(key_of(grouped(input_grad)) == "grouped:input_grad,bf16,2,4,48,64,1000,0,0,0");
    gemm = grouped(weight_grad);
    gemm.accumulate = true;
    CHECK(key_of(gemm) == "grouped:weight_grad,bf16,2,4,48,64,1000,0,0,1");
}

}  // namespace gptrain::cuda
