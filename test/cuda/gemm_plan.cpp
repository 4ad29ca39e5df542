// The plans of GEMMs; nothing is computed.
#include "catch.h"
#include "cuda/gemm/plan.h"

namespace gptrain::cuda {
namespace {

using enum GemmPart::Kind;

constexpr Algorithm some_algorithm = {7};

/// Never accessed; aligned as backend memory is.
std::byte* address(std::int64_t number) {
    return reinterpret_cast<std::byte*>(number << 40);
}

Matrix matrix(std::int64_t number, DType dtype, std::int64_t rows, std::int64_t cols) {
    return Matrix(Tensor(address(number), dtype, {rows, cols}));
}

/// The GEMMs of a layer [O, I] for T rows.
struct Layer {
    std::int64_t tokens = 64;
    std::int64_t inputs = 32;
    std::int64_t outputs = 48;
    DType dtype = DType::bf16;
    DType result = DType::bf16;

    Gemm forward() const {
        return {.a = matrix(1, dtype, tokens, inputs),
                .b = matrix(2, dtype, outputs, inputs).transposed(),
                .c = matrix(3, result, tokens, outputs)};
    }
    Gemm with_bias() const {
        Gemm gemm = forward();
        gemm.bias = address(4);
        return gemm;
    }
    Gemm with_gelu() const {
        Gemm gemm = with_bias();
        gemm.gelu = matrix(5, result, tokens, outputs);
        return gemm;
    }
    Gemm input_gradient() const {
        return {.a = matrix(1, dtype, tokens, outputs),
                .b = matrix(2, dtype, outputs, inputs),
                .c = matrix(3, result, tokens, inputs),
                .gelu_input = matrix(4, result, tokens, inputs)};
    }
    Gemm weight_gradient() const {
        return {.a = matrix(1, dtype, tokens, outputs).transposed(),
                .b = matrix(2, dtype, tokens, inputs),
                .c = matrix(3, DType::f32, outputs, inputs),
                .accumulate = true};
    }
    Gemm with_row_sums() const {
        Gemm gemm = weight_gradient();
        gemm.a_sums = reinterpret_cast<float*>(address(5));
        gemm.a_totals = reinterpret_cast<float*>(address(6));
        return gemm;
    }
};

/// On an H100 whose table has an algorithm for each call.
GemmRules rules(bool separate = false) {
    return {.device_major = 9,
            .scratch = Scratch(address(9), linear_sums_bytes),
            .choose = [separate](const Gemm&) {
                return GemmChoice{some_algorithm, separate};
            }};
}

using Kinds = std::vector<GemmPart::Kind>;

Kinds kinds_of(const GemmPlan& plan) {
    Kinds kinds;
    for (const GemmPart& part : plan)
        kinds.push_back(part.kind);
    return kinds;
}

using Sizes = std::vector<std::int64_t>;

/// M, N and K.
Sizes sizes_of(const Gemm& gemm) {
    return {gemm.c.rows, gemm.c.cols, gemm.a.cols};
}

TEST_CASE("the library computes a plain GEMM in one call, with the chosen algorithm") {
    const DType dtype = GENERATE(DType::f32, DType::bf16, DType::f16);
    const Layer layer = {.dtype = dtype, .result = dtype};
    for (const Gemm& gemm : {layer.forward(), layer.weight_gradient()}) {
        const GemmPlan plan = plan_of(gemm, rules());
        REQUIRE(kinds_of(plan) == Kinds{library});
        CHECK(sizes_of(plan[0].gemm) == sizes_of(gemm));
        CHECK(plan[0].algorithm == some_algorithm);
        CHECK(!is_separable(plan[0].gemm));
    }
}

TEST_CASE("all calls of a GEMM are chosen for the same multiprocessors") {
    const Layer layer = {.inputs = 1001};
    for (const bool separate : {false, true}) {
        Gemm gemm = layer.with_bias();
        gemm.multiprocessors = 116;
        const GemmPlan plan = plan_of(gemm, rules(separate));
        REQUIRE(plan.size() > 1);
        for (const GemmPart& part : plan)
            CHECK(part.gemm.multiprocessors == 116);
    }
}

TEST_CASE("a GEMM without elements has no parts") {
    CHECK(plan_of(Layer{.tokens = 0}.with_gelu(), rules()).empty());
}

TEST_CASE("an epilogue is in the library's call unless the choice is to separate it") {
    const Layer layer;
    for (const Gemm& gemm : {layer.with_bias(), layer.input_gradient()}) {
        const GemmPlan fused = plan_of(gemm, rules());
        REQUIRE(kinds_of(fused) == Kinds{library});
        CHECK(fused[0].gemm.has_epilogue());
        CHECK(is_separable(fused[0].gemm));
        const GemmPlan separate = plan_of(gemm, rules(true));
        REQUIRE(kinds_of(separate) == Kinds{library, epilogue});
        CHECK(!separate[0].gemm.has_epilogue());
        CHECK(separate[0].gemm.c.dtype == DType::f32);
        CHECK(separate[0].gemm.c.data == address(9));
        CHECK(!is_separable(separate[0].gemm));
        CHECK(separate[1].sums.data == address(9));
        CHECK(separate[1].gemm.c.data == gemm.c.data);
        CHECK(separate[1].gemm.bias == gemm.bias);
        CHECK(separate[1].gemm.gelu_input.data == gemm.gelu_input.data);
    }
}

TEST_CASE("fp32 sums wait in the result, and GELU' of fp32 is a kernel") {
    const Layer layer = {.dtype = DType::f32, .result = DType::f32};
    CHECK(kinds_of(plan_of(layer.with_bias(), rules())) == Kinds{library});
    const GemmPlan plan = plan_of(layer.input_gradient(), rules());
    REQUIRE(kinds_of(plan) == Kinds{library, epilogue});
    CHECK(plan[0].gemm.c.data == address(3));
    CHECK(plan[1].sums.data == address(3));
}

TEST_CASE("the outputs of a layer of 16 bits are divided at a multiple of 8") {
    const Layer layer = {.outputs = 50257};
    const GemmPlan forward = plan_of(layer.with_bias(), rules());
    // The library would round the last column before it adds the bias.
    REQUIRE(kinds_of(forward) == Kinds{library, epilogue, library, epilogue});
    CHECK(sizes_of(forward[0].gemm) == Sizes{64, 50256, 32});
    CHECK(sizes_of(forward[2].gemm) == Sizes{64, 1, 32});
    CHECK(forward[1].gemm.c.data == address(3));
    CHECK(forward[3].gemm.c.data == address(3) + 2 * 50256);
    CHECK(forward[3].gemm.bias == address(4) + 2 * 50256);
    CHECK(forward[2].gemm.b.data == address(2) + 2 * 50256 * 32);

    const GemmPlan gradient = plan_of(layer.weight_gradient(), rules());
    REQUIRE(kinds_of(gradient) == Kinds{library, library});
    CHECK(sizes_of(gradient[0].gemm) == Sizes{50256, 32, 64});
    CHECK(sizes_of(gradient[1].gemm) == Sizes{1, 32, 64});
    CHECK(gradient[1].gemm.a.data == address(1) + 2 * 50256);
    CHECK(gradient[1].gemm.c.data == address(3) + 4 * 50256 * 32);
    CHECK((gradient[0].gemm.accumulate && gradient[1].gemm.accumulate));
}

TEST_CASE("the library adds a bias to 16 bits only in sizes and strides of multiples of 8") {
    const auto fuses = [](const Layer& layer, std::int64_t stride) {
        Gemm gemm = layer.with_bias();
        gemm.c.row_stride = stride;
        return plan_of(gemm, rules()).size() == 1;
    };
    CHECK(fuses({}, 56));
    CHECK(!fuses({}, 52));
    CHECK(!fuses({.inputs = 4}, 48));
    CHECK(!fuses({.outputs = 4}, 48));
    CHECK(fuses({.outputs = 4, .result = DType::f32}, 50));
}

TEST_CASE("a sum of 16 bits is divided, and rounded once") {
    Gemm gemm = Layer{.outputs = 50257}.input_gradient();
    gemm.gelu_input = {};
    const GemmPlan plan = plan_of(gemm, rules());
    REQUIRE(kinds_of(plan) == Kinds{library, library, epilogue});
    CHECK(sizes_of(plan[0].gemm) == Sizes{64, 32, 50256});
    CHECK(sizes_of(plan[1].gemm) == Sizes{64, 32, 1});
    CHECK(plan[0].gemm.c.data == plan[1].gemm.c.data);
    CHECK((!plan[0].gemm.accumulate && plan[1].gemm.accumulate));
    CHECK(plan[1].gemm.a.data == address(1) + 2 * 50256);
    CHECK(plan[1].gemm.b.data == address(2) + 2 * 50256 * 32);
}

TEST_CASE("a divided sum in fp32 needs no kernel, and adds to what is there if it shall") {
    const bool accumulate = GENERATE(true, false);
    Gemm gemm = Layer{.inputs = 33, .result = DType::f32}.forward();
    gemm.accumulate = accumulate;
    CHECK(kinds_of(plan_of(gemm, rules())) == Kinds{library});
    const GemmPlan plan = plan_of(gemm, rules(true));
    REQUIRE(kinds_of(plan) == Kinds{library, library});
    CHECK(plan[0].gemm.accumulate == accumulate);
    CHECK(plan[1].gemm.accumulate);
}

TEST_CASE("sizes up to 8, and those of fp32 and FP8, are not divided") {
    const auto parts = [](const Layer& layer) { return plan_of(layer.forward(), rules()).size(); };
    CHECK(parts({.outputs = 7, .result = DType::f32}) == 1);
    CHECK(parts({.outputs = 9, .dtype = DType::f32, .result = DType::f32}) == 1);
    CHECK(parts({.outputs = 9, .dtype = DType::f8e4m3, .result = DType::f32}) == 1);
    CHECK(parts({.outputs = 9, .result = DType::f32}) == 2);
}

TEST_CASE("the library adds nothing to a result of 16 bits") {
    Gemm gemm = Layer().forward();
    gemm.accumulate = true;
    const GemmPlan plan = plan_of(gemm, rules());
    REQUIRE(kinds_of(plan) == Kinds{library, epilogue});
    CHECK(!plan[0].gemm.accumulate);
    CHECK(plan[1].gemm.accumulate);
}

TEST_CASE("fp32 sums of a separate epilogue fit their memory, in groups of whole tiles") {
    // 2^18, 40 and 7 rows fit.
    const auto [cols, group] = GENERATE(std::pair(std::int64_t{32}, std::int64_t{262144}),
                                        std::pair(std::int64_t{209712}, std::int64_t{32}),
                                        std::pair(std::int64_t{1198368}, std::int64_t{7}),
                                        std::pair(std::int64_t{1} << 24, std::int64_t{1}));
    CAPTURE(cols);
    const std::int64_t rows = 2 * group + 1;
    GemmRules large = rules(true);
    large.scratch = Scratch(address(9), std::int64_t{1} << 30);
    const GemmPlan plan = plan_of(Layer{.tokens = rows, .outputs = cols}.with_bias(), large);
    REQUIRE(kinds_of(plan) == Kinds{library, epilogue, library, epilogue, library, epilogue});
    for (std::int64_t i = 0; i < 3; ++i) {
        const GemmPart& part = plan[static_cast<std::size_t>(2 * i)];
        const GemmPart& kernel = plan[static_cast<std::size_t>(2 * i + 1)];
        CHECK(part.gemm.a.data == address(1) + i * group * 32 * 2);
        CHECK(kernel.gemm.c.data == address(3) + i * group * cols * 2);
        CHECK(part.gemm.c.rows == (i < 2 ? group : 1));
        CHECK(kernel.sums.rows == part.gemm.c.rows);
        CHECK(kernel.gemm.c.rows == part.gemm.c.rows);
    }
}

TEST_CASE("GELU is a kernel on what was stored, or the library's where bits may differ") {
    const Layer layer;
    GemmRules differing = rules();
    CHECK(kinds_of(plan_of(layer.with_gelu(), differing)) == Kinds{library, gelu});
    differing.deterministic = false;
    const GemmPlan fused = plan_of(layer.with_gelu(), differing);
    REQUIRE(kinds_of(fused) == Kinds{library});
    CHECK(fused[0].gemm.gelu.data == address(5));
    CHECK(is_separable(fused[0].gemm));

    // Each of the two epilogues has a separate choice.
    const auto choose_for_gelu = [](const Gemm& gemm) {
        return GemmChoice{.separate = gemm.gelu.data != nullptr};
    };
    differing.choose = choose_for_gelu;
    const GemmPlan apart = plan_of(layer.with_gelu(), differing);
    REQUIRE(kinds_of(apart) == Kinds{library, gelu});
    CHECK(apart[0].gemm.bias == address(4));
    CHECK(apart[0].gemm.gelu.data == nullptr);
    CHECK(apart[1].gemm.gelu.data == address(5));
}

TEST_CASE("SwiGLU and its gradient are kernels on what was stored") {
    GemmRules differing = rules();
    differing.deterministic = false;
    Gemm forward = Layer().with_bias();
    forward.swiglu = matrix(5, DType::bf16, 64, 24);
    const GemmPlan plan = plan_of(forward, differing);
    REQUIRE(kinds_of(plan) == Kinds{library, swiglu});
    CHECK(plan[0].gemm.bias == address(4));
    CHECK_FALSE(plan[0].gemm.has_swiglu());
    CHECK(plan[1].gemm.swiglu.data == address(5));
    CHECK(is_separable(forward));
    Gemm gradient = Layer().input_gradient();
    gradient.gelu_input = {};
    gradient.swiglu_input = matrix(5, DType::bf16, 64, 64);
    gradient.swiglu_grad = matrix(6, DType::bf16, 64, 64);
    const GemmPlan back = plan_of(gradient, differing);
    REQUIRE(kinds_of(back) == Kinds{library, swiglu});
    CHECK_FALSE(back[0].gemm.has_epilogue());
    CHECK(back[1].gemm.swiglu_grad.data == address(6));
}

TEST_CASE("the library's GELU epilogues need a new device, 16 bits and even strides") {
    const auto fuses = [](const Layer& layer, int major) {
        GemmRules free = rules();
        free.deterministic = false;
        free.device_major = major;
        return plan_of(layer.with_gelu(), free).size() == 1;
    };
    CHECK(fuses({}, 9));
    CHECK(!fuses({}, 8));
    CHECK(!fuses({.dtype = DType::f32, .result = DType::f32}, 9));
    CHECK(!fuses({.dtype = DType::f8e4m3}, 9));
    CHECK(!fuses({.outputs = 52}, 9));
    Gemm uneven = Layer().input_gradient();
    uneven.gelu_input.row_stride = 36;
    CHECK(kinds_of(plan_of(uneven, rules())) == Kinds{library, epilogue});
}

TEST_CASE("the weight gradient's GEMM sums the rows of a bias gradient, or a kernel does") {
    const Layer layer = {.outputs = 49};
    const GemmPlan fused = plan_of(layer.with_row_sums(), rules());
    REQUIRE(kinds_of(fused) == Kinds{library, add_sums});
    CHECK(sizes_of(fused[0].gemm) == Sizes{49, 32, 64});
    CHECK(is_separable(fused[0].gemm));
    const GemmPlan separate = plan_of(layer.with_row_sums(), rules(true));
    REQUIRE(kinds_of(separate) == Kinds{library, library, row_sums});
    CHECK(separate[0].gemm.a_sums == nullptr);
    CHECK(sizes_of(separate[1].gemm) == Sizes{1, 32, 64});
    CHECK(sizes_of(separate[2].gemm) == Sizes{49, 32, 64});

    const Layer fp8 = {.dtype = DType::f8e4m3};
    CHECK(kinds_of(plan_of(fp8.with_row_sums(), rules())) == Kinds{library, row_sums});
}

TEST_CASE("FP8 keeps its kind of sums, and a bias in the call") {
    Gemm gemm = Layer{.dtype = DType::f8e4m3}.with_bias();
    gemm.fast_accumulation = GENERATE(true, false);
    CHECK(kinds_of(plan_of(gemm, rules())) == Kinds{library});
    const GemmPlan plan = plan_of(gemm, rules(true));
    REQUIRE(kinds_of(plan) == Kinds{library, epilogue});
    CHECK(plan[0].gemm.fast_accumulation == gemm.fast_accumulation);
}

TEST_CASE("the choice for one part leaves those before it as they are") {
    GemmRules changed = rules();
    changed.choose = [](const Gemm& gemm) { return GemmChoice{some_algorithm, gemm.c.cols < 24}; };
    // bf16 operands and fp32 results: both ranges of columns may have their bias in the call.
    const Gemm gemm = Layer{.outputs = 52, .result = DType::f32}.with_bias();
    CHECK(kinds_of(plan_of(gemm, rules())) == Kinds{library, library});
    const GemmPlan plan = plan_of(gemm, changed);
    REQUIRE(kinds_of(plan) == Kinds{library, library, epilogue});
    CHECK(is_separable(plan[0].gemm));
    CHECK(!is_separable(plan[1].gemm));
}

TEST_CASE("a choice has one text form") {
    const Algorithm algorithm = {0x0123456789abcdef, 1, 2, 3, 4, 5, 6, ~std::uint64_t{0}};
    const std::string word = to_text(GemmChoice{.algorithm = algorithm});
    CHECK(word.size() == 128);
    CHECK(word.starts_with("0123456789abcdef0000000000000001"));
    CHECK(choice_of(word).algorithm == algorithm);
    CHECK(!choice_of(word).separate);
    CHECK(to_text(GemmChoice{.algorithm = algorithm, .separate = true}) == "apart");
    CHECK(choice_of("apart").separate);
    for (const std::string& wrong : {std::string("other"), word + "0", word.substr(1) + "x"}) {
        CHECK(!choice_of(wrong).algorithm);
        CHECK(!choice_of(wrong).separate);
    }
}

}  // namespace
}  // namespace gptrain::cuda
