// Candidates that divide more of their state, or keep it in host memory, where they do not fit.
#include "search/savings.h"

#include <algorithm>
#include <catch.h>
#include <string>
#include <vector>

#include "cuda/needs.h"
#include "hardware/load_profile.h"
#include "search/search.h"

namespace gptrain::test {
namespace {

const std::string savings_spec = R"(
name: small
device: cuda
output_dir: runs/small
model: {num_layers: 8, hidden_size: 2048, num_attention_heads: 16, vocab_size: 32000}
data: {train: [{prefix: data/corpus}]}
training: {seq_length: 2048, global_batch_size: 16, steps: 1000}
)";

struct SavingsCase {
    RunSpec spec = parse_run_spec(savings_spec, "small.yaml");
    HardwareProfile hardware = load_profile("a100-80gb");
    BackendMemory needs = cuda::backend_memory();
    SearchContext context = {
        .spec = spec,
        .target = {.world_size = 8, .cuda = true, .dry_run = true, .ranks_per_node = 8},
        .needs = needs,
        .hardware = hardware,
        .capacity = 4.5e9,
        .host_capacity = 64e9};
    SearchSpace space = whole_space(spec);
};

/// The seconds of a candidate if it fits, else those of what saves memory.
void price_with_savings(const SavingsCase& given, const Choices& choices,
                        std::vector<double>& seconds) {
    try {
        const Found found = evaluate(given.context, choices);
        if (static_cast<double>(found.required_bytes) <= given.context.capacity)
            return seconds.push_back(found.estimate.step.seconds);
    } catch (const Error&) {
        return;
    }
    // The same settings with the optimizer divided come first.
    if (choices.parallel.shard == Sharded::none) return;
    for (const Choices& saving : savings_of(choices, given.space, given.context))
        price_with_savings(given, saving, seconds);
}

std::vector<double> distinct(std::vector<double> seconds, std::size_t count) {
    std::sort(seconds.begin(), seconds.end());
    seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
    seconds.resize(std::min(seconds.size(), count));
    return seconds;
}

Choices with_shard(Sharded shard, std::int64_t tensor) {
    Choices choices;
    choices.parallel.shard = shard;
    choices.parallel.tensor = tensor;
    choices.compute = Precision::bf16;
    return choices;
}

}  // namespace

TEST_CASE("what saves memory is found where nothing else fits") {
    SavingsCase given;
    given.space.tensor = {1, 2};
    given.space.pipeline = {1, 2};
    given.space.context = {1};
    given.space.micro_batch = {1};
    given.space.schedule = {ScheduleKind::one_f_one_b};
    std::vector<double> all;
    for (const auto& groups : candidate_groups(given.space, given.spec, 8))
        for (const Choices& group : groups)
            for (const Choices& each : candidates_of(group, given.space, 8))
                price_with_savings(given, each, all);
    const SearchResult result = search(given.context, given.space, 10);
    std::vector<double> found;
    bool divides = false;
    for (const Found& each : result.best) {
        found.push_back(each.estimate.step.seconds);
        divides = divides || each.choices.parallel.shard >= Sharded::gradients;
        CHECK(static_cast<double>(each.required_bytes) <= given.context.capacity);
    }
    found = distinct(found, 10);
    CHECK(found == distinct(all, found.size()));
    CHECK(divides);
}

TEST_CASE("one GPU keeps state in host memory, as far as there is some") {
    SavingsCase given;
    given.context.target.world_size = 1;
    given.context.capacity = 7e9;
    const SearchResult result = search(given.context, given.space, 1);
    REQUIRE(result.best.size() == 1);
    const Found& best = result.best.front();
    CHECK(best.choices.offload.optimizer);
    CHECK(best.choices.offload.main_weights);
    CHECK(best.host_bytes > 12 * 500'000'000LL);
    given.context.host_capacity = 6e9;
    CHECK(search(given.context, given.space, 1).best.empty());
    given.context.host_capacity = 64e9;
    given.space.offloads_more = false;
    CHECK(search(given.context, given.space, 1).best.empty());
}

TEST_CASE("groups of ranks that save memory lie on a node") {
    SavingsCase given;
    given.context.target.world_size = 64;
    const auto savings = [&](const Choices& choices) {
        return savings_of(choices, given.space, given.context);
    };
    const std::vector<Choices> more = savings(with_shard(Sharded::optimizer, 2));
    REQUIRE(more.size() == 2);  // 32 ranks divide the state: none of it moves to the host
    CHECK(more[0].parallel.shard == Sharded::gradients);
    CHECK(more[0].parallel.shard_ranks == 4);
    CHECK(!more[1].parallel.shard_ranks);
    const std::vector<Choices> weights = savings(more[0]);
    REQUIRE(weights.size() == 1);
    CHECK(weights[0].parallel.shard == Sharded::weights);
    CHECK(weights[0].parallel.shard_ranks == 4);
    CHECK(savings(weights[0]).empty());
    given.space.divides_more = false;
    CHECK(savings(with_shard(Sharded::optimizer, 2)).empty());
}

}  // namespace gptrain::test
