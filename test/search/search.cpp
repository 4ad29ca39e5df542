// The search against all candidates simulated one by one.
#include "search/search.h"

#include <algorithm>
#include <catch.h>
#include <fstream>
#include <string>
#include <vector>

#include "cuda/needs.h"
#include "hardware/load_profile.h"
#include "search/bounds.h"
#include "search/measured_file.h"
#include "search/search_picture.h"
#include "search/table_text.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

constexpr std::int64_t ranks = 8;
constexpr double rounding = 1 + 1e-9;

const std::string small_spec = R"(
name: small
device: cuda
output_dir: runs/small
model: {num_layers: 8, hidden_size: 2048, num_attention_heads: 16, vocab_size: 32000}
data: {train: [{prefix: data/corpus}]}
training: {seq_length: 2048, global_batch_size: 16, steps: 1000}
)";

/// The inputs of a search, for GPUs with less memory than the real ones.
struct Case {
    RunSpec spec = parse_run_spec(small_spec, "small.yaml");
    HardwareProfile hardware = load_profile("a100-80gb");
    BackendMemory needs = cuda::backend_memory();
    SearchContext context = {.spec = spec,
                             .target = {.world_size = ranks, .cuda = true, .dry_run = true},
                             .needs = needs,
                             .hardware = hardware,
                             .capacity = 8e9};
};

struct Priced {
    Choices choices;
    double seconds = 0;
    double bytes = 0;
};

/// Every candidate that the spec's rules allow, in full.
std::vector<Priced> price_all(const SearchContext& context, const SearchSpace& space) {
    std::vector<Priced> all;
    for (const auto& groups : candidate_groups(space, context.spec, context.target.world_size))
        for (const Choices& group : groups)
            for (const Choices& each : candidates_of(group, space, context.spec.model.num_layers)) {
                try {
                    const Found found = evaluate(context, each);
                    all.push_back({each, found.estimate.step.seconds,
                                   static_cast<double>(found.required_bytes)});
                } catch (const Error&) {
                    continue;
                }
            }
    return all;
}

/// The seconds of the fastest that fit, without candidates that are the same under another name.
std::vector<double> fastest(std::vector<Priced> all, double capacity, std::size_t count) {
    std::erase_if(all, [&](const Priced& each) { return each.bytes > capacity; });
    std::vector<double> seconds;
    for (const Priced& each : all)
        seconds.push_back(each.seconds);
    std::sort(seconds.begin(), seconds.end());
    seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
    seconds.resize(std::min(seconds.size(), count));
    return seconds;
}

std::vector<double> seconds_of(const SearchResult& result) {
    std::vector<double> seconds;
    for (const Found& found : result.best)
        seconds.push_back(found.estimate.step.seconds);
    seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
    return seconds;
}

}  // namespace

TEST_CASE("the search finds what simulating every candidate finds") {
    const Case given;
    SearchSpace space = whole_space(given.spec);
    space.recompute = {Recompute::none, Recompute::full};
    space.micro_batch = {1, 2};
    space.context = {1, 2};
    const std::vector<Priced> all = price_all(given.context, space);
    const SearchResult result = search(given.context, space, 10);
    const std::vector<double> found = seconds_of(result);
    REQUIRE(result.best.size() == 10);
    CHECK(found == fastest(all, given.context.capacity, found.size()));
    for (std::size_t i = 0; i < memory_corners.size(); ++i) {
        const auto expected = fastest(all, memory_corners[i] * given.context.capacity, 1);
        REQUIRE(result.corners[i].has_value() == !expected.empty());
        if (!expected.empty()) CHECK(result.corners[i]->estimate.step.seconds == expected.front());
    }

    SECTION("and no bound is above what it bounds") {
        LayerCostTable costs(given.spec, given.context.target, given.needs, given.hardware);
        double loosest = 1;
        for (const Priced& each : all) {
            const RunPlan plan = plan_of(given.context, each.choices);
            const StepCosts step = step_costs(costs.times(each.choices), costs.memory(each.choices),
                                              plan, given.hardware);
            const double work = work_bound(step, plan);
            const double schedule = schedule_bound(step, plan);
            CHECK(work_bound(ideal_costs(plan, given.hardware), plan) <= work * rounding);
            CHECK(work <= schedule * rounding);
            CHECK(schedule <= each.seconds * rounding);
            CHECK(memory_bound(costs.memory(each.choices), plan) <= each.bytes);
            loosest = std::min(loosest, schedule / each.seconds);
        }
        INFO("the loosest bound is " << loosest << " of the time");
        CHECK(loosest > 0.5);
    }
}

TEST_CASE("bounds hold with Muon, frozen parameters, a slow host, and any number of data ranks") {
    Case given;
    SECTION("the host issues ops more slowly than the device runs them") {
        given.spec.model.num_layers = 4;
        given.spec.model.hidden_size = 64;
        given.spec.model.num_attention_heads = 4;
        given.spec.model.vocab_size = 320;
        given.spec.training.seq_length = 32;
    }
    SECTION("weight gradients take longer to read and write than to compute") {
        given.spec.training.seq_length = 128;
    }
    SECTION("3 or 6 data ranks share 16 sequences") {
        given.context.target.world_size = 6;
    }
    SECTION("Muon") {
        given.spec.optimizer.name = "muon";
    }
    SECTION("parts of all layers are frozen") {
        given.spec.training.frozen = {"wte.weight", "h.*.mlp.*"};
    }
    SECTION("some layers are frozen") {
        given.spec.training.frozen = {"h.0.*", "h.3.*"};
    }
    SECTION("some layers have no window") {
        given.spec.model.sliding_window = 256;
        given.spec.model.full_attention_layers = {2, 3};
    }
    SECTION("all layers have experts") {
        given.spec.model.experts = ExpertsSpec{.count = 8, .per_token = 2, .ffn_hidden_size = 1024};
        given.context.capacity = 16e9;
    }
    SECTION("some layers have experts") {
        given.spec.model.experts = ExpertsSpec{.count = 8, .per_token = 2, .ffn_hidden_size = 1024};
        given.spec.model.experts->layers = {.first_dense = 1, .every = 2};
    }
    SearchSpace space = whole_space(given.spec);
    space.recompute = {Recompute::selective};
    space.micro_batch = {1};
    space.context = {1};
    const std::vector<Priced> all = price_all(given.context, space);
    const std::vector<double> found = seconds_of(search(given.context, space, 10));
    CHECK(found == fastest(all, given.context.capacity, found.size()));
    LayerCostTable costs(given.spec, given.context.target, given.needs, given.hardware);
    for (const Priced& each : all) {
        const RunPlan plan = plan_of(given.context, each.choices);
        const LayerMemory& memory = costs.memory(each.choices);
        const StepCosts step = step_costs(costs.times(each.choices), memory, plan, given.hardware);
        const StepCosts least =
            step_costs(costs.least_times(each.choices), memory, plan, given.hardware);
        CHECK(work_bound(least, plan) <= work_bound(step, plan) * rounding);
        CHECK(work_bound(step, plan) <= schedule_bound(step, plan) * rounding);
        CHECK(schedule_bound(step, plan) <= each.seconds * rounding);
        CHECK(memory_bound(memory, plan) <= each.bytes);
    }
}

TEST_CASE("a profile without a network serves the ranks of its node") {
    Case given;
    given.hardware.node.network.reset();
    SECTION("GPUs") {}
    SECTION("more ranks than cores") {
        given.hardware = load_profile("cpu");
        given.hardware.node.network.reset();
        given.hardware.node.devices = 4;
        given.spec.device = DeviceChoice::cpu;
        given.needs = {.scratch = [](const OpLimits&) { return std::int64_t{0}; },
                       .messages_on_host = true};
        given.context.target.cuda = false;
        given.context.capacity = 64e9;
    }
    SearchSpace space = whole_space(given.spec);
    space.recompute = {Recompute::selective};
    space.micro_batch = {2};
    space.context = {1};
    space.tensor = {1, 2};
    const std::vector<double> found = seconds_of(search(given.context, space, 10));
    REQUIRE(!found.empty());
    CHECK(found == fastest(price_all(given.context, space), given.context.capacity, found.size()));
}

TEST_CASE("what leaves a node takes longer over a slower network, whichever ranks it is") {
    Case given;
    given.context.target.world_size = 12;
    Choices choices = choices_of(given.spec);
    choices.micro_batch_size = 1;
    SECTION("stages of six ranks, the first ranks of which share a node") {
        choices.parallel.pipeline = 2;
        choices.global_batch_size = 12;
    }
    SECTION("the second of three groups of four ranks crosses a border of nodes of six") {
        given.hardware.node.devices = 6;
        choices.parallel.tensor = 4;
        choices.global_batch_size = 12;
    }
    const StepTime fast = evaluate(given.context, choices).estimate.step;
    given.hardware.node.network->bandwidth /= 100;
    const StepTime slow = evaluate(given.context, choices).estimate.step;
    const Spent spent = choices.parallel.tensor > 1 ? Spent::tp : Spent::pp;
    CHECK(slow[spent] > 1.5 * fast[spent]);
}

TEST_CASE("tensor parallelism across nodes is named") {
    Case given;
    given.context.target.world_size = 12;
    given.hardware.node.devices = 6;
    SearchSpace space = whole_space(given.spec);
    space.micro_batch = {1};
    space.pipeline = space.context = {1};
    space.global_batch = {12};
    SearchResult result = search(given.context, space, 10);
    for (auto& [value, outcome] : result.outcomes)
        outcome.among_best = false;
    std::string across;
    for (const LeftOut& each : left_out(result, given.context))
        if (contains(each.reason, "leaves the node")) across += each.values;
    CHECK(across == "4");
}

TEST_CASE("choices leave the rest of a spec as it is") {
    Case given;
    given.spec.precision.frozen = FrozenWeights::int8;
    CHECK(with_choices(given.spec, choices_of(given.spec)).precision == given.spec.precision);
}

TEST_CASE("a step of one microbatch takes the memory of a whole step") {
    Case given;
    Choices choices = choices_of(given.spec);
    choices.parallel.pipeline = 2;
    choices.parallel.tensor = 2;
    for (const ScheduleKind kind :
         {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble}) {
        for (const Precision grad_reduce : {Precision::fp32, Precision::bf16}) {
            choices.parallel.schedule = kind;
            choices.grad_reduce = grad_reduce;
            const RunPlan plan = plan_of(given.context, choices);
            for (int stage = 0; stage < 2; ++stage) {
                const MeshPlace place = {.pp = stage};
                CHECK(measure_memory(plan, place, given.needs) ==
                      measure_run(plan, place, given.needs).memory);
            }
        }
    }
}

TEST_CASE("linear layers in pieces take the memory of whole ones") {
    Case given;
    Choices choices = choices_of(given.spec);
    choices.parallel.pipeline = choices.parallel.tensor = 2;
    choices.parallel.sequence_parallel = true;
    choices.micro_batch_size = GENERATE(1, 2);
    choices.recompute = GENERATE(Recompute::none, Recompute::selective, Recompute::full);
    choices.parallel.schedule = GENERATE(ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble);
    const auto memory_with = [&](OverlapTensor overlap, int stage) {
        choices.parallel.overlap_tensor = overlap;
        return measure_memory(plan_of(given.context, choices), {.pp = stage}, given.needs);
    };
    for (const int stage : {0, 1})
        CHECK(memory_with(OverlapTensor::on, stage) == memory_with(OverlapTensor::off, stage));
}

TEST_CASE("lasting memory is what a step adds workspace to") {
    const Case given;
    const RunPlan plan = plan_of(given.context, choices_of(given.spec));
    MemoryPlan memory = measure_memory(plan, {}, given.needs);
    CHECK(memory[MemoryUse::workspace] > 0);
    memory[MemoryUse::workspace] = memory[MemoryUse::snapshot] = 0;
    CHECK(memory == lasting_memory(plan, {}, given.needs));
}

TEST_CASE("a limited key takes only the given values") {
    const Case given;
    SearchSpace space = whole_space(given.spec);
    RunSpec two = given.spec;
    two.parallel.tensor = 2;
    fix(space, "parallel.tensor", {two});
    for (const Found& found : search(given.context, space, 10).best)
        CHECK(found.choices.parallel.tensor == 2);
    space = whole_space(given.spec);
    two.parallel.data = 2;
    fix(space, "parallel.data", {two});
    CHECK(space.data == std::vector<std::int64_t>{2});
    fix(space, "parallel.data", {two, given.spec});  // the other says auto
    CHECK(space.data.empty());
    CHECK_THROWS_WITH(parse_fixed_key("parallel.tenser=2"),
                      contains_text("did you mean parallel.tensor?"));
    CHECK_THROWS_WITH(parse_fixed_key("optimizer.lr=2"), contains_text("use --set to change it"));
    CHECK(parse_fixed_key("parallel.layers=[1,2],[2,1]").values ==
          std::vector<std::string>{"[1,2]", "[2,1]"});
}

TEST_CASE("a larger batch takes fewer steps of the same samples") {
    const Case given;
    Choices choices = choices_of(given.spec);
    choices.global_batch_size = 48;
    CHECK(with_choices(given.spec, choices).training.steps == 334);
    choices.global_batch_size = 16;
    CHECK(with_choices(given.spec, choices).training.steps == 1000);
}

TEST_CASE("a ramp-up and a learning rate keep their samples with a larger batch") {
    Case given;
    given.spec.training.rampup = {.start = 8, .increment = 8, .samples = 1600};
    given.spec.lr_schedule = {
        .kind = LrKind::wsd, .warmup_steps = 100, .decay_steps = 900, .wsd_decay_steps = 200};
    Choices choices = choices_of(given.spec);
    choices.global_batch_size = 24;
    const RunSpec changed = with_choices(given.spec, choices);
    const BatchSchedule before = {16, given.spec.training.rampup};
    const BatchSchedule after = {24, given.spec.training.rampup};
    const auto keeps = [&](std::int64_t step_before, std::int64_t step) {
        const std::int64_t samples = before.samples_of(step_before);
        CHECK(after.samples_of(step) >= samples);
        CHECK(after.samples_of(step - 1) < samples);
    };
    const LrScheduleSpec& lr = changed.lr_schedule;
    keeps(1000, changed.training.steps);
    keeps(100, lr.warmup_steps);
    keeps(900, *lr.decay_steps);
    keeps(700, *lr.decay_steps - lr.wsd_decay_steps);
    CHECK(changed.training.rampup == given.spec.training.rampup);
}

TEST_CASE("measurements are known to the next start, and one that twice did not end has failed") {
    const TempFolder folder;
    const auto path = folder.path() / "measured.jsonl";
    const Json a = {{"ranks", 2}};
    const Json b = {{"ranks", 4}};
    MeasuredFile file(path);
    CHECK(!file.find(a));
    file.start(a);
    CHECK(!file.find(a));
    file.interrupt(a);
    file.start(a);
    CHECK(!file.find(a));
    file.start(a);
    CHECK(contains(file.find(a)->failure, "crashed, was killed or hung"));
    file.end(a, {.seconds = 0.5, .spread = 0.1, .failure = ""});
    file.start(b);
    file.end(b, {.seconds = 0, .spread = 0, .failure = "no memory"});
    std::ofstream(path, std::ios::app) << R"({"candidate":{"ranks")";

    const MeasuredFile again(path);
    CHECK(again.find(a)->seconds == 0.5);
    CHECK(again.find(a)->failure.empty());
    CHECK(again.find(b)->failure == "no memory");
    MeasuredFile(path).start(b);
    CHECK(!MeasuredFile(path).find(b));
    MeasuredFile(path).start(b);
    CHECK(contains(MeasuredFile(path).find(b)->failure, "crashed"));
    std::ofstream(path, std::ios::app) << "nonsense\n";
    CHECK_THROWS_WITH(MeasuredFile(path),
                      contains_text("measured.jsonl:10") && contains_text("remove that line"));
}

TEST_CASE("a picture has the best, the candidates and every rank of the fastest mesh") {
    const Case given;
    SearchSpace space = whole_space(given.spec);
    space.tensor = {1, 2};
    const SearchReport report = {
        .result = search(given.context, space, 3), .own = {}, .global_batches = space.global_batch};
    const SearchResult& result = report.result;
    CHECK(std::ssize(result.points) > result.counts.simulated / 2);
    CHECK(std::count_if(result.points.begin(), result.points.end(),
                        [](const auto& point) { return point.simulated; }) >= 3);
    const std::string svg = to_svg(report, given.context);
    CHECK(contains(svg,
                   text("1: ", plain_seconds(result.best.front().estimate.step.seconds), " s, ")));
    for (int rank = 0; rank < ranks; ++rank)
        CHECK(contains(svg, text("<title>rank ", rank, ": dp ")));
    CHECK(svg.ends_with("</svg>\n"));
}

}  // namespace gptrain::test
