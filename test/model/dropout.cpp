// The coordinates that the model passes for its dropout masks.
#include <algorithm>
#include <map>
#include <utility>

#include "catch.h"
#include "spec/make_plan.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

/// A meter that notes every dropout that ops request.
class DropoutRecorder final : public EachOp<MeterBackend, DropoutRecorder> {
public:
    DropoutRecorder()
        : EachOp<MeterBackend, DropoutRecorder>(
              BackendMemory{.scratch = [](const OpLimits&) { return std::int64_t{0}; }}) {}

    template <class Op>
    void on(const Op& /*op*/) {}
    void on(const ResidualAdd& op) { note(forward, op.dropout); }
    void on(const ResidualNormForward& op) { note(forward, op.dropout); }
    void on(const PositionForward& op) { note(forward, op.dropout); }
    void on(const AttentionForward& op) { note(forward, op.dropout); }
    void on(const ResidualNormBackward& op) { note(backward, op.dropout); }
    void on(const ApplyDropout& op) { note(backward, op.dropout); }
    void on(const PositionBackward& op) { note(backward, op.dropout); }
    void on(const AttentionBackward& op) { note(backward, op.forward.dropout); }

    /// How often each site of each layer was drawn.
    using Draws = std::map<std::pair<DropoutSite, std::uint32_t>, int>;
    Draws forward;
    Draws backward;
    std::vector<Dropout> all;

private:
    void note(Draws& draws, const Dropout& dropout) {
        if (dropout.probability == 0) return;
        ++draws[{dropout.site, dropout.layer}];
        all.push_back(dropout);
    }
};

}  // namespace

TEST_CASE("every site of every layer draws its own mask, the same forward and backward",
          "[model]") {
    RunSpec spec = GENERATE(0, 1) == 0 ? tiny_spec() : tiny_llama_spec();
    spec.model.dropout = 0.1;
    spec.recompute = Recompute::none;
    spec.parallel.schedule = GENERATE(ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble);
    RunPlan plan = make_plan(spec, {});
    plan.scores_tasks = true;
    const Mesh mesh = one_rank_mesh();
    DropoutRecorder recorder;
    Engine engine(recorder, mesh, plan);
    engine.initialise();
    StepBatch batch;
    batch.step = 1;
    batch.microbatches.resize(2);
    engine.step(batch);

    DropoutRecorder::Draws expected = {{{DropoutSite::embedding, 0}, 2}};
    for (std::uint32_t layer = 0; layer < 3; ++layer)
        for (const DropoutSite site :
             {DropoutSite::attention, DropoutSite::attention_output, DropoutSite::mlp_output})
            expected[{site, layer}] = 2;
    CHECK(recorder.forward == expected);
    CHECK(recorder.backward == expected);
    for (const Dropout& dropout : recorder.all) {
        CHECK(dropout.probability == 0.1f);
        CHECK(dropout.seed == spec.seed);
        CHECK(dropout.head_begin == 0);
        CHECK(dropout.rows.position(5) == 5);
    }
    batch.microbatches.resize(1);
    recorder.all.clear();
    engine.evaluate(batch);
    engine.forward_passes().score(
        batch.microbatches, plan.seq_length, engine.listeners(),
        [](std::size_t, std::span<const float>, std::span<const float>) {});
    CHECK(recorder.all.empty());
}
