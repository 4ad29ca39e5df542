// A model with virtual tokens computes what one does that has them in its vocabulary.
#include <catch.h>
#include <numeric>

#include "cpu/cpu_backend.h"
#include "infer/logits.h"
#include "interop/peft_prompt.h"
#include "small_model.h"

namespace gptrain::test {
namespace {

const std::vector<std::int32_t> small_text = {3, 14, 15, 9, 26, 5};

std::vector<std::vector<float>> rows_of_logits(const RunSpec& spec,
                                               const std::vector<std::int32_t>& ids,
                                               const WeightReader& weights) {
    const auto backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    const RunPlan plan = make_plan(spec, {});
    const std::vector<float> all = compute_logits(
        *backend, mesh, plan, ids, [&](InferenceModel& model) { model.load(weights); });
    std::vector<std::vector<float>> rows;
    for (auto row = all.begin(); row != all.end(); row += plan.model.vocab)
        rows.emplace_back(row, row + small_vocab);
    return rows;
}

}  // namespace

TEST_CASE("virtual tokens are like tokens of a larger vocabulary") {
    const std::string llama =
        ", position_embedding: rope, normalization: rmsnorm, "
        "activation: swiglu, bias: false";
    const std::string model = GENERATE_COPY(std::string(), llama);
    const AdapterKind kind = GENERATE(AdapterKind::prompt, AdapterKind::p_tuning);
    const RunSpec spec = small_spec_with(kind, model);
    const ModelShape shape = make_plan(spec, {}).model;
    const std::int64_t count = shape.prompt->tokens;
    const WeightReader own = [](const Shard& part, std::span<float> to) { fill_weights(part, to); };

    RunSpec larger = small_spec(model);
    larger.model.vocab_size = small_vocab + count;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(small_vocab));
    ids.insert(ids.end(), small_text.begin(), small_text.end());
    const PeftTensor prompt = peft_prompt(shape, own);
    CHECK(prompt.shape == Shape({count, shape.hidden}));
    const auto expected = rows_of_logits(larger, ids, [&](const Shard& part, std::span<float> to) {
        if (part.name != "wte.weight") return own(part, to);
        const Shard rows = Shard::whole(part.name, {small_vocab, shape.hidden});
        own(rows, to.first(static_cast<std::size_t>(rows.elements())));
        std::copy(prompt.values.begin(), prompt.values.end(), to.begin() + rows.elements());
    });
    const auto found = rows_of_logits(spec, small_text, own);
    REQUIRE(found.size() == small_text.size());
    for (std::size_t i = 0; i < found.size(); ++i)
        check_near(found[i], expected[static_cast<std::size_t>(count) + i]);
}

}  // namespace gptrain::test
