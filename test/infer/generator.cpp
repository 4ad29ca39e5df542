// Several texts at a time.
#include "infer/generator.h"

#include <algorithm>
#include <catch.h>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cuda/needs.h"
#include "small_model.h"

namespace gptrain::test {
namespace {

/// The logits after each of `count` steps, in which the texts [B, n] first have n tokens and then
/// one more each time: the most likely one.
std::vector<std::vector<float>> logits_of(const RunSpec& spec,
                                          const std::vector<std::vector<std::int32_t>>& texts,
                                          int count) {
    const auto backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    RunPlan plan = make_plan(spec, {});
    plan.micro_batch_size = std::ssize(texts);
    plan.seq_length = plan.model.virtual_tokens() + std::ssize(texts.front()) + count;
    const std::int64_t length = std::ssize(texts.front());
    ActionListeners nobody;
    Generator generator(*backend, mesh, plan, length, nobody,
                        measure_generator(plan, {}, memory_of(*backend), length).memory);
    generator.model().load(fill_weights);
    std::vector<std::int32_t> tokens;
    for (const auto& text : texts)
        tokens.insert(tokens.end(), text.begin(), text.end());
    std::vector<std::vector<float>> all;
    for (int i = 0; i < count; ++i) {
        tokens = generator.next_tokens(tokens, [&](std::span<const float> logits) {
            all.emplace_back(logits.begin(), logits.end());
            return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                             logits.begin());
        });
    }
    return all;
}

}  // namespace

TEST_CASE("texts that are continued together get the tokens that each gets alone") {
    const std::string rope = ", position_embedding: rope, num_query_groups: 2, sliding_window: 3";
    for (const RunSpec& spec :
         {small_spec(), small_spec(rope), small_spec_with(AdapterKind::prompt, rope),
          small_spec_with(AdapterKind::p_tuning)}) {
        const std::vector<std::vector<std::int32_t>> texts = {
            {3, 14, 15, 9, 26}, {5, 35, 8, 9, 7}, {49, 0, 1, 2, 3}};
        constexpr int count = 4;
        const auto together = logits_of(spec, texts, count);
        REQUIRE(together.size() == texts.size() * count);
        for (std::size_t text = 0; text < texts.size(); ++text) {
            const auto alone = logits_of(spec, {texts[text]}, count);
            for (std::size_t i = 0; i < count; ++i)
                check_near(together[i * texts.size() + text], alone[i]);
        }
    }
}

}  // namespace gptrain::test
