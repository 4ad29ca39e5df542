// Several texts at a time, and what an answer takes on given hardware.
#include "infer/generator.h"

#include <algorithm>
#include <catch.h>
#include <cmath>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cuda/needs.h"
#include "hardware/load_profile.h"
#include "infer/answer_search.h"
#include "spec/make_plan.h"

namespace gptrain::test {
namespace {

constexpr std::int64_t vocab = 50;

RunSpec small_spec(const std::string& model = "") {
    const std::string yaml =
        "name: small\noutput_dir: runs/small\n"
        "model: {num_layers: 2, hidden_size: 32, num_attention_heads: 4, vocab_size: 50" +
        model +
        "}\n"
        "data: {train: [{prefix: data/corpus}]}\n"
        "training: {seq_length: 64, steps: 10}\n";
    return parse_run_spec(yaml, "small.yaml", {});
}

/// The logits after each of `count` steps, in which the texts [B, n] first have n tokens and then
/// one more each time: the most likely one.
std::vector<std::vector<float>> logits_of(const RunSpec& spec,
                                          const std::vector<std::vector<std::int32_t>>& texts,
                                          int count) {
    const auto backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    RunPlan plan = make_plan(spec, {});
    plan.micro_batch_size = std::ssize(texts);
    plan.seq_length = std::ssize(texts.front()) + count;
    const std::int64_t length = std::ssize(texts.front());
    ActionListeners nobody;
    Generator generator(*backend, mesh, plan, length, nobody,
                        measure_generator(plan, {}, memory_of(*backend), length).memory);
    generator.model().load([](const Shard& part, std::span<float> to) {
        std::uint32_t state = static_cast<std::uint32_t>(part.elements());
        for (float& value : to) {
            state = state * 1664525 + 1013904223;
            value = static_cast<float>(state >> 8) / static_cast<float>(1 << 25) - 0.25f;
        }
    });
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

void check_near(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == vocab);
    REQUIRE(b.size() == vocab);
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(a[i])));
        difference = std::max(difference, std::fabs(static_cast<double>(a[i]) - b[i]));
    }
    CHECK(difference < 1e-4 * largest);
}

}  // namespace

TEST_CASE("texts that are continued together get the tokens that each gets alone") {
    for (const char* model :
         {"", ", position_embedding: rope, num_query_groups: 2, sliding_window: 3"}) {
        const RunSpec spec = small_spec(model);
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
