// How long an answer takes on given hardware.
#include "answers/answer_search.h"
#include "catch.h"
#include "cuda/needs.h"
#include "hardware/load_profile.h"
#include "infer/small_model.h"
#include "spec/model_cost.h"

namespace gptrain::test {

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
