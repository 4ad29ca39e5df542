// Gradients that ranks send to each other rounded to bf16.
#include <cmath>

#include "base/philox.h"
#include "catch.h"
#include "comm/comm_totals.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "mesh_cases.h"
#include "meter/meter_communicator.h"
#include "model/grad_buckets.h"
#include "model/ownership.h"
#include "ranks.h"
#include "schedule/stage_plan.h"
#include "spec/make_plan.h"
#include "tiny_run.h"

namespace gptrain::test {
namespace {

/// The gradients of a model and their reduction over all ranks, on any backend.
struct Reduction {
    Reduction(Backend& backend, const RunPlan& plan, Communicator& sharers, bool shard,
              const std::optional<MemoryPlan>& memory_plan)
        : memory(backend, memory_plan),
          parameters(
              memory,
              make_layout(
                  {.model = plan.model, .chunks = chunk_parts(plan, 0), .shards = sharers.size()}),
              DType::f32, Parameters::Use::training),
          buckets(backend, memory, parameters, sharers, {.shard = shard, .dtype = DType::bf16}) {}

    Memory memory;
    Parameters parameters;
    GradBuckets buckets;
};

/// Values of many magnitudes and both signs.
float gradient(int rank, std::int64_t i) {
    const auto n = static_cast<double>((i * 2654435761 + rank * 40503 + 12345) % 65537) / 65537;
    return static_cast<float>((n - 0.5) * std::exp2(static_cast<double>(i % 23) - 12));
}

/// Sums of the rounded values in fp32, in the order of ranks.
float expected(int ranks, std::int64_t i) {
    float sum = to_float(to_bf16(gradient(0, i)));
    for (int rank = 1; rank < ranks; ++rank)
        sum += to_float(to_bf16(gradient(rank, i)));
    return sum;
}

TEST_CASE("gradients that go as bf16 are added in fp32, in the order of ranks") {
    const bool shard = GENERATE(true, false);
    CAPTURE(shard);
    const auto backend = cpu::make_backend();
    CommTotals totals;
    const auto sharers = observed(mpi_communicators(session(), *backend), totals)(
        {.axis = Axis::dp_cp, .id = 0, .rank = session().rank(), .size = session().size()});
    const RunPlan plan = make_plan(tiny_spec(), {});
    MeterBackend meter({});
    MeterCommunicator metered(sharers->rank(), sharers->size());
    Reduction sizes(meter, plan, metered, shard, std::nullopt);
    Reduction reduction(*backend, plan, *sharers, shard, sizes.memory.peaks());

    const ParameterLayout& layout = reduction.parameters.layout();
    auto* grads = reduction.parameters.main_grads().as<float>();
    for (int step = 0; step < 2; ++step) {
        for (std::int64_t i = 0; i < layout.elements; ++i)
            grads[i] = gradient(sharers->rank(), i);
        totals.clear();
        reduction.buckets.ready({0, layout.elements});
        reduction.buckets.finish();
        const std::int64_t parts = shard ? 1 : 2;
        CHECK(totals[Axis::dp_cp].bytes ==
              parts * 2 * layout.elements / sharers->size() * (sharers->size() - 1));
        std::int64_t wrong = 0;
        for (const FlatRange& bucket : layout.buckets) {
            const FlatRange known =
                shard ? part_of_bucket(bucket, sharers->rank(), sharers->size()) : bucket;
            for (std::int64_t i = known.begin; i < known.end; ++i) {
                const float sum = expected(sharers->size(), i);
                if (grads[i] != (shard ? sum : to_float(to_bf16(sum)))) ++wrong;
            }
        }
        CHECK(wrong == 0);
    }
}

}  // namespace
}  // namespace gptrain::test
