// Several texts at a time, and what an answer takes on given hardware.
#include "infer/generator.h"

#include <algorithm>
#include <catch.h>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cuda/needs.h"
#include "hardware/load_profile.h"
#include "infer/answer_search.h"
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

TEST_CASE("a token takes the time to read the weights and the cache, or to issue its ops") {
    RunSpec spec = small_spec();
    spec.device = DeviceChoice::cuda;
    spec.model.num_layers = 24;
    spec.model.hidden_size = 4096;
    spec.model.num_attention_heads = 32;
    spec.model.vocab_size = 50000;
    spec.model.max_position_embeddings = 4096;
    HardwareProfile hardware = load_profile("a100-80gb");
    const BackendMemory needs = cuda::backend_memory();
    const SearchContext context = {.spec = spec,
                                   .target = {.world_size = 1, .cuda = true, .dry_run = true},
                                   .needs = needs,
                                   .hardware = hardware,
                                   .capacity = hardware.device.memory};
    const auto cost_of = [&](std::int64_t prompt, std::int64_t batch) {
        AnswerQuestion question;
        question.prompt_tokens = prompt;
        question.new_tokens = 2;
        question.batches = {batch};
        return search_answers(context, question).best.at(0);
    };
    const double bandwidth = hardware.device.memory_bandwidth * hardware.device.memory_efficiency;
    const auto parameters = static_cast<double>(
        parameter_count(make_plan(spec, {.world_size = 1, .cuda = true}).model));
    const double weights = 2 * parameters / bandwidth;
    const AnswerCost one = cost_of(16, 1);
    CHECK(one.next.seconds > 0.95 * weights);
    CHECK(one.next.seconds < 1.2 * weights);
    // 64 texts read the weights once, and 2,000 tokens of keys and values each.
    const AnswerCost many = cost_of(2000, 64);
    const double cache = 2.0 * 2 * 24 * 4096 * 2000 * 64 / bandwidth;
    CHECK(many.next.seconds > 0.95 * (weights + cache));
    CHECK(many.next.seconds < 1.3 * (weights + cache));
    CHECK(many.cache_bytes == std::int64_t{2} * 2 * 24 * 4096 * 2002 * 64);
    // A slow host issues the ops of a token after the token before is known.
    hardware.device.issue_seconds = 1e-3;
    CHECK(cost_of(16, 1).next.seconds > 24 * 7 * 1e-3);
}

}  // namespace gptrain::test
