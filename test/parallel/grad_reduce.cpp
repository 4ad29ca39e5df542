// Sums of gradients: rounded to bf16, and over other ranks in each bucket.
#include <cmath>

#include "base/philox.h"
#include "catch.h"
#include "comm/comm_totals.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "delayed.h"
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
    using SharingOf = std::function<Sharing(const TensorGroup&)>;

    Reduction(Backend& backend, const Mesh& mesh, const SharingOf& sharing, DType dtype,
              const std::optional<MemoryPlan>& memory_plan)
        : plan(make_plan(tiny_spec(), {})),
          memory(backend, memory_plan),
          parameters(memory,
                     make_layout({.model = plan.model,
                                  .chunks = chunk_parts(plan, 0),
                                  .mesh = mesh.shape(),
                                  .sharing = sharing,
                                  .divides_sums = true}),
                     DType::f32, Parameters::Use::training),
          buckets(backend, memory, parameters, mesh, {.dtype = dtype}) {}

    /// The memory that it takes.
    static MemoryPlan needed(const MeshShape& shape, const SharingOf& sharing, DType dtype) {
        MeterBackend meter({});
        const Mesh mesh(shape, {}, {}, meter_communicators());
        return Reduction(meter, mesh, sharing, dtype, std::nullopt).memory.peaks();
    }

    RunPlan plan;
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
    const MeshShape shape = {.data = session().size()};
    const Mesh mesh(shape, place_of(session().rank(), shape), {},
                    observed(delayed(mpi_communicators(session(), *backend)), totals));
    const auto sharing = [&](const TensorGroup&) {
        return Sharing{.owners = shard ? std::optional(Axis::dp_cp) : std::nullopt};
    };
    Reduction reduction(*backend, mesh, sharing, DType::bf16,
                        Reduction::needed(shape, sharing, DType::bf16));
    const Communicator* sharers = &mesh.dp_cp();

    const ParameterLayout& layout = reduction.parameters.layout();
    auto* grads = reduction.parameters.grads({0, layout.trained}).as<float>();
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

TEST_CASE("each bucket is summed over the ranks that share it") {
    const auto backend = cpu::make_backend();
    const int ranks = session().size();
    const MeshShape shape = {.data = ranks > 2 ? ranks / 2 : ranks,
                             .context = ranks > 2 ? 2 : 1,
                             .shard = ranks > 2 ? ranks / 2 : 1};
    const Sharing other =
        GENERATE(Sharing{Axis::cp, Axis::cp}, Sharing{Axis::cp}, Sharing{Axis::dp_cp, Axis::cp},
                 Sharing{Axis::dp_cp, Axis::shard, Axis::shard_copies});
    const DType dtype = GENERATE(DType::f32, DType::bf16);
    const auto sharing = [&](const TensorGroup& group) {
        return group.name.find(".mlp.") == std::string::npos ? Sharing{.owners = Axis::dp_cp}
                                                             : other;
    };
    const Mesh mesh(shape, place_of(session().rank(), shape), {},
                    delayed(mpi_communicators(session(), *backend)));
    Reduction reduction(*backend, mesh, sharing, dtype, Reduction::needed(shape, sharing, dtype));

    // Sums are below 256, which are exact in bf16.
    const auto value = [](std::int64_t rank, std::int64_t i) { return (rank + 1) * (i % 7 + 1); };
    const ParameterLayout& layout = reduction.parameters.layout();
    auto* grads = reduction.parameters.grads({0, layout.trained}).as<float>();
    for (std::int64_t i = 0; i < layout.trained; ++i)
        grads[i] = static_cast<float>(value(session().rank(), i));
    reduction.buckets.ready({0, layout.trained});
    reduction.buckets.finish();
    std::int64_t wrong = 0;
    for (const OwnedRange& range : owned_ranges(layout, mesh)) {
        const bool all = range.parameter->sharing.sums == Axis::dp_cp;
        for (std::int64_t i = range.begin; i < range.begin + range.shard.elements(); ++i) {
            std::int64_t sum = 0;
            for (std::int64_t rank = 0; rank < ranks; ++rank)
                if (all || place_of(rank, shape).dp == mesh.place().dp) sum += value(rank, i);
            if (grads[i] != static_cast<float>(sum)) ++wrong;
        }
    }
    CHECK(wrong == 0);
}

}  // namespace
}  // namespace gptrain::test
