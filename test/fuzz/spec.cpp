// A run spec: read, planned and written back.
#include "fuzz/target.h"
#include "spec/make_plan.h"

using namespace gptrain;

namespace {

RunPlan plan_of(const RunSpec& spec) {
    const ParallelSpec& parallel = spec.parallel;
    const std::int64_t ranks =
        parallel.data.value_or(1) * parallel.tensor * parallel.pipeline * parallel.context;
    return make_plan(spec, {.world_size = ranks, .dry_run = true});
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const auto read = [](std::string_view yaml) { return parse_run_spec(yaml, "run.yaml"); };
    RunSpec spec;
    RunPlan plan;
    const bool readable = test::accepts(
        ExitCode::usage, "run.yaml:", [&] { spec = read(test::as_text(bytes, size)); });
    if (!readable) return 0;
    GPTRAIN_CHECK(read(to_yaml(spec)) == spec);
    if (!test::accepts(ExitCode::usage, "run.yaml", [&] { plan = plan_of(spec); })) return 0;
    // The contents of spec.yaml give the same plan.
    const RunSpec effective = effective_spec(spec, plan);
    GPTRAIN_CHECK(read(to_yaml(effective)) == effective);
    GPTRAIN_CHECK(describe(plan_of(effective)) == describe(plan));
    return 0;
}
