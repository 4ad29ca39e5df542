// The size of a new run. The expected batches and rates come from size_laws.py.
#include "search/run_size.h"

#include <catch.h>
#include <cmath>

#include "cuda/needs.h"
#include "hardware/load_profile.h"
#include "spec/model_cost.h"

namespace gptrain::test {
namespace {

RunSpec base_spec(std::int64_t vocab_size) {
    RunSpec spec;
    spec.name = "new";
    spec.device = DeviceChoice::cuda;
    spec.data.train = {{.prefix = "data/corpus"}};
    spec.model.vocab_size = vocab_size;
    return spec;
}

struct Sizing {
    HardwareProfile hardware = load_profile("h100-sxm");
    BackendMemory needs = cuda::backend_memory();
    RunSpec base = base_spec(32000);

    SizedRun run(const RunBudget& budget, double capacity = 80e9) const {
        return size_run(base, budget,
                        {.target = {.world_size = 1, .cuda = true, .dry_run = true},
                         .needs = needs,
                         .hardware = hardware,
                         .capacity = capacity});
    }
};

}  // namespace

TEST_CASE("batch and learning rate by the laws", "[run_size]") {
    struct Case {
        std::int64_t parameters, tokens, seq_length, multiple;
        std::int64_t batch, steps;
        double lr;
    };
    const Case one = GENERATE(Case{124'000'000, 2'480'000'000, 1024, 1, 256, 9460, 1.6e-3},
                              Case{5'868'800, 500'000, 256, 1, 4, 488, 9.4e-4},
                              Case{7'000'000'000, 140'000'000'000, 4096, 64, 1024, 33378, 5.9e-4},
                              Case{1'000'000, 1'000, 128, 8, 8, 1, 2.3e-3},
                              Case{124'000'000, 2'480'000'000, 1024, 1024, 1024, 2365, 1.6e-3});
    const TrainingSize size =
        training_size(one.parameters, one.tokens, one.seq_length, one.multiple);
    CHECK(size.global_batch_size == one.batch);
    CHECK(size.steps == one.steps);
    CHECK(std::abs(size.lr - one.lr) < 1e-12);
}

TEST_CASE("the sizes of models grow", "[run_size]") {
    const auto parameters = [](const ModelSize& size) {
        RunSpec spec = base_spec(32000);
        spec.model = model_of(size, 32000);
        spec.training.seq_length = size.seq_length;
        spec.training.steps = 1;
        const RunPlan plan = make_plan(spec, {.world_size = 1, .cuda = true, .dry_run = true});
        CHECK(plan.model.vocab == 32000);
        CHECK((plan.model.head_dim == 64 || plan.model.head_dim == 128));
        return parameter_count(plan.model);
    };
    std::int64_t before = 0;
    for (const ModelSize& size : model_sizes()) {
        const std::int64_t own = parameters(size);
        CHECK(own > before);
        if (before > 0) CHECK(own <= 3 * before);
        before = own;
    }
}

TEST_CASE("what limits a new run", "[run_size]") {
    const Sizing sizing;
    // 20 tokens for each parameter, of four passes or of those asked for.
    const SizedRun by_data = sizing.run({.data_tokens = 500'000'000, .hours = {}, .tokens = {}});
    CHECK(by_data.limit == SizeLimit::tokens);
    CHECK(20 * by_data.parameters <= 2'000'000'000);
    CHECK(by_data.tokens <= 2'000'000'000);
    CHECK(by_data.tokens > 1'900'000'000);
    const SizedRun asked = sizing.run({.data_tokens = 1, .hours = {}, .tokens = 2'000'000'000});
    CHECK(asked.spec.model == by_data.spec.model);

    // In less time a smaller model, which sees its tokens in that time.
    const double hours = by_data.estimate.days * 24 / 8;
    const SizedRun by_time = sizing.run({.data_tokens = 500'000'000, .hours = hours, .tokens = {}});
    CHECK(by_time.limit == SizeLimit::time);
    CHECK(by_time.parameters < by_data.parameters);
    CHECK(by_time.tokens >= 20 * by_time.parameters);
    CHECK(by_time.estimate.days * 24 <= 1.01 * hours);
    CHECK(by_time.estimate.days * 24 > 0.9 * hours);

    // More memory than the smallest model takes, and less than the one by the data.
    const SizedRun by_memory =
        sizing.run({.data_tokens = 500'000'000, .hours = {}, .tokens = {}}, 2e9);
    CHECK(by_memory.limit == SizeLimit::memory);
    CHECK(by_memory.parameters < by_data.parameters);
    CHECK_THROWS_AS(sizing.run({.data_tokens = 500'000'000, .hours = {}, .tokens = {}}, 1e6),
                    Error);
}

TEST_CASE("a mixture trains as the model that computes as much", "[run_size]") {
    Sizing sizing;
    const RunBudget budget = {.data_tokens = 500'000'000, .hours = {}, .tokens = {}};
    const SizedRun dense = sizing.run(budget);
    CHECK(dense.active == dense.parameters);
    sizing.base.model.experts = {.count = 8, .per_token = 2};
    const SizedRun mixture = sizing.run(budget);
    CHECK(mixture.active == dense.active);
    CHECK(mixture.parameters > 2 * dense.parameters);
    CHECK(mixture.spec.training.steps == dense.spec.training.steps);
    CHECK(mixture.spec.optimizer.lr == dense.spec.optimizer.lr);
    CHECK(mixture.spec.model.experts->ffn_hidden_size == *dense.spec.model.ffn_hidden_size / 2);
}

TEST_CASE("too little for any model takes the smallest", "[run_size]") {
    const SizedRun run = Sizing().run({.data_tokens = 1000, .hours = {}, .tokens = {}});
    CHECK(run.limit == SizeLimit::tokens);
    CHECK(run.spec.model.num_layers == model_sizes().front().layers);
    CHECK(run.spec.training.steps > 0);
}

}  // namespace gptrain::test
