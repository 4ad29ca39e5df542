// Texts of different lengths in one batch.
#include "infer/batch_generator.h"

#include <catch.h>
#include <map>
#include <memory>
#include <vector>

#include "cpu/cpu_backend.h"
#include "infer/generator.h"
#include "small_model.h"

namespace gptrain::test {
namespace {

/// The logits after every token of a text, one token at a time.
std::vector<std::vector<float>> logits_alone(const RunSpec& spec,
                                             const std::vector<std::int32_t>& text) {
    const auto backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    RunPlan plan = make_plan(spec, {});
    plan.micro_batch_size = 1;
    plan.seq_length = plan.model.virtual_tokens() + std::ssize(text);
    ActionListeners nobody;
    Generator generator(*backend, mesh, plan, 1, nobody,
                        measure_generator(plan, {}, memory_of(*backend), 1).memory);
    generator.model().load(fill_weights);
    std::vector<std::vector<float>> all;
    for (const std::int32_t token : text) {
        generator.next_token({&token, 1}, [&](std::span<const float> logits) {
            all.emplace_back(logits.begin(), logits.end());
            return 0;
        });
    }
    return all;
}

/// A generator of one rank, with weights.
struct LoadedGenerator {
    LoadedGenerator(const RunSpec& spec, const BatchLimits& limits)
        : plan(make_plan(spec, {})),
          generator(*backend, mesh, plan, limits, nobody,
                    measure_batch_generator(plan, {}, memory_of(*backend), limits)) {
        generator.model().load(fill_weights);
    }

    const std::unique_ptr<Backend> backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    ActionListeners nobody;
    RunPlan plan;
    BatchGenerator generator;
};

const std::vector<std::vector<std::int32_t>> texts = {
    {3, 14, 15, 9, 26, 5, 35, 8, 9}, {5, 35}, {49, 0, 1, 2, 3, 4, 5}, {7}};

/// For each step the texts in it, with how many tokens each gets. Together they append all tokens
/// of all texts; texts come, pause and share steps in every way.
const std::vector<std::vector<std::pair<std::size_t, std::size_t>>> shared_steps = {
    {{0, 4}},
    {{0, 1}, {1, 1}, {2, 3}},
    {{2, 2}, {0, 2}},
    {{3, 1}, {1, 1}, {0, 1}, {2, 2}},
    {{0, 1}}};

}  // namespace

TEST_CASE("texts that share steps get the logits that each gets alone") {
    const std::string rope = ", position_embedding: rope, num_query_groups: 2, sliding_window: 3";
    for (const RunSpec& spec :
         {small_spec(), small_spec(rope), small_spec_with(AdapterKind::prompt),
          small_spec_with(AdapterKind::p_tuning, rope), small_spec(norms_after),
          small_spec(parallel_halves)}) {
        LoadedGenerator loaded(spec, {.texts = 4, .positions = 9, .tokens = 8, .logits = 6});
        BatchGenerator& generator = loaded.generator;
        std::vector<std::vector<std::vector<float>>> expected;
        for (const auto& text : texts)
            expected.push_back(logits_alone(spec, text));

        std::vector<std::size_t> before(texts.size());
        for (const auto& step : shared_steps) {
            std::vector<TextStep> parts;
            std::vector<std::pair<std::size_t, std::size_t>> wanted;  // text, token
            for (const auto& [text, count] : step) {
                const auto begin = texts[text].begin() + static_cast<std::ptrdiff_t>(before[text]);
                // All but the first token: some rows are wanted and others are not.
                const std::size_t logits = count == 1 ? 1 : count - 1;
                parts.push_back({.place = static_cast<std::int64_t>(3 - text),
                                 .before = static_cast<std::int64_t>(before[text]),
                                 .tokens = {begin, begin + static_cast<std::ptrdiff_t>(count)},
                                 .logits = static_cast<std::int64_t>(logits)});
                before[text] += count;
                for (std::size_t i = before[text] - logits; i < before[text]; ++i)
                    wanted.emplace_back(text, i);
            }
            std::size_t given = 0;
            generator.run(parts, [&](std::size_t part, std::span<const float> logits) {
                const auto [text, token] = wanted.at(given++);
                CHECK(step[part].first == text);
                check_near({logits.begin(), logits.end()}, expected[text][token]);
            });
            CHECK(given == wanted.size());
        }
    }
}

TEST_CASE("a copied prefix gives the logits of a read one") {
    const std::string rope = ", position_embedding: rope, num_query_groups: 2, sliding_window: 3";
    for (const RunSpec& spec : {small_spec(), small_spec_with(AdapterKind::p_tuning, rope)}) {
        const std::vector<std::int32_t>& text = texts[0];
        const auto expected = logits_alone(spec, text);
        LoadedGenerator loaded(spec, {.texts = 3, .positions = 9, .tokens = 12, .logits = 3});
        BatchGenerator& generator = loaded.generator;
        const TextStep read = {.place = 1, .before = 0, .tokens = text, .logits = 1};
        generator.run({&read, 1}, [](std::size_t, std::span<const float>) {});
        // Another text takes the place in the step that copies from it.
        const std::vector<TextStep> steps = {
            {.place = 2,
             .before = std::ssize(text) - 1,
             .tokens = {text.back()},
             .logits = 1,
             .copied_from = 1},
            {.place = 1, .before = 0, .tokens = texts[2], .logits = 0}};
        generator.run(steps, [&](std::size_t, std::span<const float> logits) {
            check_near({logits.begin(), logits.end()}, expected.back());
        });
    }
}

TEST_CASE("in int8 logits do not depend on how many others there are") {
    const RunSpec spec =
        small_int8_spec(GENERATE("",
                                 ", tie_embeddings: false, experts: {count: 6, per_token: 2, "
                                 "ffn_hidden_size: 24, bias: true}"));
    const std::vector<std::int32_t> text = {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3};
    const auto expected = logits_alone(spec, text);
    LoadedGenerator loaded(spec, {.texts = 1, .positions = 12, .tokens = 12, .logits = 12});
    BatchGenerator& generator = loaded.generator;
    const TextStep step = {.place = 0, .before = 0, .tokens = text, .logits = std::ssize(text)};
    std::size_t token = 0;
    generator.run({&step, 1}, [&](std::size_t, std::span<const float> logits) {
        check_near({logits.begin(), logits.end()}, expected.at(token++));
    });
    CHECK(token == text.size());
}

TEST_CASE("a batch takes the memory that the meter predicts, and no step takes more") {
    const RunSpec spec =
        GENERATE(small_spec(), small_spec_with(AdapterKind::p_tuning), small_int8_spec(),
                 small_int8_spec(", experts: {count: 6, per_token: 2, ffn_hidden_size: 24}"));
    const RunPlan plan = make_plan(spec, {});
    const auto backend = cpu::make_backend();
    const Mesh mesh = one_rank_mesh();
    ActionListeners nobody;
    for (const BatchLimits& limits :
         {BatchLimits{3, 7, 10, 4}, BatchLimits{2, 8, 6, 6}, BatchLimits{1, 5, 5, 1},
          BatchLimits{1, 1, 1, 1}, BatchLimits{1, 9, 9, 9}}) {
        const MemoryPlan memory = measure_batch_generator(plan, {}, memory_of(*backend), limits);
        BatchGenerator generator(*backend, mesh, plan, limits, nobody, memory);
        generator.model().load(fill_weights);
        // Arenas throw where a step takes more than planned.
        for (std::int64_t count = 1; count <= std::min(limits.positions, limits.tokens); ++count) {
            for (std::int64_t logits = 0; logits <= std::min(count, limits.logits); ++logits) {
                const TextStep step = {
                    .place = limits.texts - 1,
                    .before = 0,
                    .tokens = std::vector<std::int32_t>(static_cast<std::size_t>(count), 1),
                    .logits = logits};
                std::int64_t rows = 0;
                generator.run({&step, 1}, [&](std::size_t, std::span<const float>) { ++rows; });
                CHECK(rows == logits);
            }
        }
        const MemoryPlan peaks = generator.model().memory().peaks();
        CHECK(peaks[MemoryUse::saved] == memory[MemoryUse::saved]);
        CHECK(peaks.total() <= memory.total());
    }
}

}  // namespace gptrain::test
