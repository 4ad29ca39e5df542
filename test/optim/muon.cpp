// Muon on one rank, besides its parity with PyTorch (torch_parity.cpp).
#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "catch.h"
#include "meter/meter_communicator.h"
#include "model/ownership.h"
#include "optim/newton_schulz.h"
#include "spec/make_plan.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

RunSpec muon_spec(RunSpec spec) {
    spec.optimizer.name = "muon";
    return spec;
}

/// A row-major matrix in double precision.
struct Matrix {
    std::int64_t rows;
    std::int64_t columns;
    std::vector<double> values;

    Matrix(std::int64_t r, std::int64_t c)
        : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
    double& at(std::int64_t r, std::int64_t c) {
        return values[static_cast<std::size_t>(r * columns + c)];
    }
};

/// A reflection, I - 2 v v^T / (v^T v), is orthogonal.
class Reflection {
public:
    Reflection(std::int64_t size, std::uint32_t seed) : v_(static_cast<std::size_t>(size)) {
        for (std::size_t i = 0; i < v_.size(); ++i) {
            const PhiloxBlock words =
                philox({static_cast<std::uint32_t>(i), 0, 0, 0}, philox_stream(seed, 0, 0, 0));
            v_[i] = words[0] * 0x1p-31 - 1;
            square_ += v_[i] * v_[i];
        }
    }
    double at(std::int64_t i, std::int64_t j) const {
        const auto v = [&](std::int64_t k) { return v_[static_cast<std::size_t>(k)]; };
        return (i == j ? 1.0 : 0.0) - 2 * v(i) * v(j) / square_;
    }

private:
    std::vector<double> v_;
    double square_ = 0;
};

/// The matrix with these singular values, and the same singular vectors in every call.
Matrix with_singular_values(std::int64_t rows, std::int64_t columns,
                            const std::vector<double>& values) {
    const Reflection left(rows, 1);
    const Reflection right(columns, 2);
    Matrix matrix(rows, columns);
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
            for (std::size_t k = 0; k < values.size(); ++k) {
                const auto at = static_cast<std::int64_t>(k);
                matrix.at(r, c) += left.at(r, at) * values[k] * right.at(c, at);
            }
        }
    }
    return matrix;
}

/// The result of one iteration for a singular value.
double iterated(double x) {
    return 3.4445 * x - 4.7750 * std::pow(x, 3) + 2.0315 * std::pow(x, 5);
}

}  // namespace

TEST_CASE("orthogonalisation keeps singular vectors and moves singular values", "[model][muon]") {
    const auto [rows, columns] =
        GENERATE(table<std::int64_t, std::int64_t>({{24, 24}, {24, 80}, {80, 24}, {1, 7}, {7, 1}}));
    CAPTURE(rows, columns);
    std::vector<double> before;
    std::vector<double> after;
    for (std::int64_t k = 0; k < std::min(rows, columns); ++k) {
        // From 1 down to 1/20, not in order.
        before.push_back(1 / (1.0 + static_cast<double>(k * 7 % 20)));
        double value = before.back();
        for (int i = 0; i < 5; ++i)
            value = iterated(value);
        after.push_back(value);
        // As published: between 0.7 and 1.2, about.
        CHECK(value > 0.65);
        CHECK(value < 1.25);
    }
    const Matrix given = with_singular_values(rows, columns, before);
    const Matrix expected = with_singular_values(rows, columns, after);

    const auto backend = tested_backend();
    std::vector<float> values(given.values.begin(), given.values.end());
    Arena arena(*backend, MemorySpace::device, "test", std::int64_t{1} << 20);
    Arena scratch(*backend, MemorySpace::device, "scratch", std::int64_t{1} << 24);
    backend->use_scratch(scratch.allocate(DType::u8, {std::int64_t{1} << 24}));
    const Tensor x = arena.allocate(DType::f32, {rows, columns});
    backend->upload(x, std::as_bytes(std::span(values)));
    orthogonalise(*backend, arena, x);
    backend->download(std::as_writable_bytes(std::span(values)), x);
    // An error of the input grows by at most 3.4445 in an iteration.
    const double rounding = 0x1p-24 * std::pow(3.4445, 5) * static_cast<double>(before.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(std::abs(double{values[i]} - expected.values[i]) <= rounding);
}

TEST_CASE("the root mean square of Muon's updates is about 0.2 lr", "[model][muon]") {
    RunSpec spec = muon_spec(GENERATE(0, 1) == 0 ? tiny_spec() : tiny_llama_spec());
    spec.optimizer.weight_decay = 0;
    spec.optimizer.lr = 0.01;
    spec.lr_schedule.kind = LrKind::constant;
    spec.optimizer.muon.lr_scale = GENERATE(1.0, 0.25);
    TinyRun run(spec);
    const NamedValues before = run.state("weight");
    run.step(random_batch(run.plan(), 1));
    const NamedValues after = run.state("weight");
    const NamedValues momentum = run.state("momentum_buffer");
    // Six matrices in each block of GPT-2, seven with a gate.
    CHECK(std::ssize(momentum) == spec.model.num_layers * (gated(spec.model.activation) ? 7 : 6));
    for (const auto& [name, unused] : momentum) {
        CAPTURE(name);
        const double rms = distance(before.at(name), after.at(name)) /
                           std::sqrt(static_cast<double>(before.at(name).size()));
        const double unit = 0.2 * spec.optimizer.lr * spec.optimizer.muon.lr_scale;
        // Their ratio is the root mean square of the singular values.
        CHECK(rms > 0.6 * unit);
        CHECK(rms < 1.3 * unit);
    }
    CHECK(run.state("exp_avg").size() + momentum.size() == before.size());
}

TEST_CASE("a skipped step changes neither Muon's momentum nor its weights", "[model][muon]") {
    RunSpec spec = muon_spec(tiny_spec());
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16, Precision::fp16);
    TinyRun run(spec);
    run.step(random_batch(run.plan(), 1));
    const NamedValues weights = run.state("weight");
    const NamedValues momentum = run.state("momentum_buffer");
    run.engine().step(random_batch(run.plan(), 2), 1e-3);
    REQUIRE(run.engine().read_state().skip == Skip::loss_limit);
    CHECK(run.state("weight") == weights);
    CHECK(run.state("momentum_buffer") == momentum);
    run.step(random_batch(run.plan(), 3));
    CHECK(run.state("weight") != weights);
}

TEST_CASE("Muon takes the memory that was predicted, less than AdamW", "[model][muon]") {
    RunSpec spec = GENERATE(0, 1) == 0 ? tiny_spec() : tiny_qwen_spec();
    spec.precision.compute = GENERATE(Precision::fp32, Precision::bf16, Precision::fp16);
    TinyRun adamw(spec);
    TinyRun muon(muon_spec(spec));
    for (int step = 1; step <= 2; ++step)
        CHECK(std::isfinite(muon.step(random_batch(muon.plan(), step))));
    muon.engine().evaluate(random_batch(muon.plan(), 1));
    CHECK(muon.engine().memory().peaks() == muon.memory_plan());
    CHECK(muon.memory_plan()[MemoryUse::optimizer] < adamw.memory_plan()[MemoryUse::optimizer]);
}

TEST_CASE("frozen matrices have no momentum", "[model][muon]") {
    RunSpec spec = muon_spec(tiny_spec());
    spec.training.frozen = {"h.0.*", "h.1.attn.*"};
    TinyRun run(spec);
    run.step(random_batch(run.plan(), 1));
    CHECK(run.state("momentum_buffer").size() == 2 + 6);
}

TEST_CASE("a sharded optimizer divides Muon's matrices whole and about equally", "[model][muon]") {
    const RunPlan plan = make_plan(muon_spec(tiny_llama_spec()), {});
    constexpr std::int64_t ranks = 4;
    const Mesh mesh({.data = ranks, .tensor = 2}, {}, {}, meter_communicators());
    const auto layout_of = [&](int tensor_rank) {
        LayoutRequest request = {.model = plan.model, .chunks = {{0, plan.model.layers}}};
        request.mesh = mesh.shape();
        request.tensor_rank = tensor_rank;
        request.sharing = [](const TensorGroup&) { return Sharing{.owners = Axis::dp_cp}; };
        request.whole_parameters = true;
        request.rules = plan.parameters;
        return make_layout(request);
    };
    const ParameterLayout layout = layout_of(0);
    // The head, the blocks, the embedding.
    REQUIRE(layout.buckets.size() == 3);
    CHECK_FALSE(layout.buckets[0].whole);
    CHECK(layout.buckets[1].whole);
    CHECK_FALSE(layout.buckets[2].whole);

    std::vector<std::int64_t> loads(ranks);
    std::int64_t sum = 0;
    std::int64_t largest = 0;
    const ParameterLayout other = layout_of(1);
    for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
        const Parameter& parameter = layout.parameters[i];
        CHECK(parameter.owner == other.parameters[i].owner);
        if (!parameter.shard.name.starts_with("h.")) continue;
        const std::int64_t elements = parameter.shard.elements();
        loads.at(static_cast<std::size_t>(parameter.owner)) += elements;
        sum += elements;
        largest = std::max(largest, elements);
    }
    // The rule gives no rank more than the mean and one matrix.
    for (const std::int64_t load : loads) {
        CHECK(load > 0);
        CHECK(load <= sum / ranks + largest);
    }

    // New weights: each element once, in order, and what one rank sends is its own.
    std::int64_t end = 0;
    const std::vector<WeightMessage> messages = weight_messages(layout, mesh);
    for (const WeightMessage& message : messages) {
        CHECK(message.owners == Axis::dp_cp);
        CHECK(message.range.begin >= end);
        end = message.range.end;
    }
    for (const Parameter& parameter : layout.parameters) {
        bool sent = false;
        for (const WeightMessage& message : messages) {
            const FlatRange& range = message.range;
            if (parameter.begin() < range.begin || parameter.end() > range.end) continue;
            sent = true;
            CHECK(message.owner.has_value() == parameter.shard.name.starts_with("h."));
            if (message.owner) CHECK(*message.owner == parameter.owner);
        }
        CHECK(sent);
    }
}
