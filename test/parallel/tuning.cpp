// How the ranks agree on ways to compute linear ops, on a backend that only records requests.
#include "calibrate/tuning.h"

#include "catch.h"
#include "meter/meter_backend.h"
#include "ranks.h"
#include "spec/make_plan.h"
#include "support/captured_stderr.h"
#include "tiny_run.h"

namespace gptrain::test {
namespace {

constexpr std::string_view choices_of_first = "as rank 0 likes it";

class Chooser final : public MeterBackend {
public:
    explicit Chooser(bool takes_choices = true)
        : MeterBackend({.scratch = [](const OpLimits&) { return std::int64_t{1000}; }}),
          takes_choices_(takes_choices) {}

    bool can_tune() const override { return tunes; }
    bool loads_code_late() const override { return loads_late; }
    std::string tune(const std::function<void()>& ops) override {
        ops();
        return std::string(choices_of_first);
    }
    bool set_choices(std::string_view choices) override {
        used = choices;
        return takes_choices_;
    }

    std::string used;
    bool tunes = true;
    bool loads_late = false;

private:
    bool takes_choices_;
};

/// Stages whose ops differ, in FP8 and with all epilogues, or with experts.
RunSpec pipeline_spec(bool experts = false) {
    RunSpec spec = experts ? tiny_experts_spec() : tiny_spec();
    spec.model.num_layers = 8;
    spec.parallel.pipeline = session().size();
    spec.precision.compute = experts ? Precision::bf16 : Precision::fp8;
    return spec;
}

LinearOps ops_of(const RunPlan& plan, std::int64_t rank) {
    const Chooser backend;
    return measure_run(plan, place_of(rank, plan.mesh), memory_of(backend)).linear_ops;
}

}  // namespace

TEST_CASE("rank 0 alone tries the linear ops of all ranks, and all take its choices") {
    const RunPlan plan = make_plan(pipeline_spec(), {.world_size = session().size(), .cuda = true});
    const LinearOps own = ops_of(plan, session().rank());
    Chooser backend;
    std::int64_t moves = 0;
    prepare_linear_ops(backend, own, op_limits(plan), session(), [&] { ++moves; });
    CHECK(backend.used == choices_of_first);

    LinearOps all;
    for (int rank = 0; rank < session().size(); ++rank)
        all.merge(ops_of(plan, rank));
    const bool first = session().rank() == 0;
    if (first) CHECK(own.size() < all.size());  // without the head's
    const auto have = [&](const auto& is) { return std::any_of(all.begin(), all.end(), is); };
    CHECK(have([](const LinearOp& op) { return op.gelu.rows > 0; }));
    // A bias gradient is part of a weight gradient, but not with FP8 operands.
    const auto sums_bias = [](const LinearOp& op) {
        return op.kind == LinearOp::Kind::weight_grad && op.extra.rows > 0;
    };
    CHECK(have(sums_bias));
    CHECK(!have([&](const LinearOp& op) { return sums_bias(op) && op.first.is_fp8(); }));
    // The ops that are tried are those that were described, matrix by matrix.
    CHECK(backend.linear_ops() == (first ? all : LinearOps()));
    CHECK(moves == (first ? std::ssize(all) : 0));
}

TEST_CASE("linear ops of experts are tried as they were described") {
    const RunPlan plan =
        make_plan(pipeline_spec(true), {.world_size = session().size(), .cuda = true});
    LinearOps all;
    for (int rank = 0; rank < session().size(); ++rank)
        all.merge(ops_of(plan, rank));
    using enum LinearOp::Kind;
    for (const auto kind : {grouped_forward, grouped_input_grad, grouped_weight_grad}) {
        const auto found = std::find_if(all.begin(), all.end(),
                                        [&](const LinearOp& op) { return op.kind == kind; });
        REQUIRE(found != all.end());
        CHECK(found->experts == plan.model.experts->count);
    }
    Chooser backend;
    prepare_linear_ops(backend, ops_of(plan, session().rank()), op_limits(plan), session(), [] {});
    CHECK(backend.linear_ops() == (session().rank() == 0 ? all : LinearOps()));
}

TEST_CASE("each rank runs its own ops once where the first run of an op may load code") {
    const RunPlan plan = make_plan(pipeline_spec(), {.world_size = session().size(), .cuda = true});
    const LinearOps own = ops_of(plan, session().rank());
    Chooser backend;
    backend.tunes = false;
    for (const bool late : {false, true}) {
        backend.loads_late = late;
        std::int64_t moves = 0;
        prepare_linear_ops(backend, own, op_limits(plan), session(), [&] { ++moves; });
        CHECK(backend.linear_ops() == (late ? own : LinearOps()));
        CHECK(moves == (late ? std::ssize(own) : 0));
        CHECK(backend.used.empty());
    }
}

TEST_CASE("a rank that cannot use the choices is spoken of once") {
    Chooser backend(session().rank() != 1);
    const std::string said =
        stderr_of([&] { prepare_linear_ops(backend, {}, {}, session(), [] {}); });
    CHECK(contains(said, "a different GPU or library from rank 0") == (session().rank() == 0));
}

}  // namespace gptrain::test
