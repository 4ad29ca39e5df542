// Loss masks on meshes: documents packed into one sequence, and batches of which little or nothing
// is learned.
#include <cmath>
#include <numeric>

#include "base/file.h"
#include "catch.h"
#include "comm/comm_listener.h"
#include "compare.h"
#include "data/batch_loader.h"
#include "data/indexed_writer.h"
#include "data/next_batch.h"
#include "data/sequential_dataset.h"
#include "engine/rank_model.h"
#include "mesh_cases.h"
#include "mesh_run.h"
#include "ranks.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

constexpr std::int32_t end_of_document = 2;

/// A run on the mesh of all ranks.
struct MeshRun {
    explicit MeshRun(const RunSpec& spec)
        : run(spec, make_backend(), session().size(), [&](const RunPlan& plan, Backend& backend) {
              listeners.add(progress());
              return make_mesh(plan, backend, listeners);
          }) {
        run.engine().listen(progress());
    }
    StepBatch batch(std::int64_t step) { return batch(step, run.mesh().place().dp); }
    StepBatch batch(std::int64_t step, std::int64_t data_rank) {
        return random_batch(run.plan(), step, 1, data_rank);
    }

    CommListeners listeners;
    TinyRun run;
};

/// The weights that training updates and this rank owns.
NamedValues owned_weights(TinyRun& run) {
    NamedValues weights;
    run.engine().visit([&](const NamedState& state) {
        if (state.group != "weight" || !state.shard.owned) return;
        weights[state.shard.name] = host_values(run.backend(), state);
    });
    return weights;
}

struct Document {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> learned;
};

/// A document of that many tokens; the second half is learned, the end of document included.
Document document(std::int32_t first, std::size_t tokens) {
    Document made;
    for (std::size_t i = 0; i + 1 < tokens; ++i)
        made.ids.push_back(first + static_cast<std::int32_t>(i * 7 % 40));
    made.ids.push_back(end_of_document);
    for (std::size_t i = 0; i < tokens; ++i)
        made.learned.push_back(2 * i >= tokens ? 1 : 0);
    return made;
}

/// The loss of these documents, packed one after another into windows.
WeightedSum loss_of(MeshRun& mesh, const std::vector<Document>& documents) {
    const TempFolder folder;
    IndexedWriter writer(folder / "a", DType::u16, true);
    for (const Document& one : documents) {
        writer.add_sequence(one.ids, one.learned);
        writer.end_document();
    }
    writer.commit(TokenMeta{.tokenizer_file = "t", .program = "test"});
    const RunPlan& plan = mesh.run.plan();
    const SequentialDataset source(std::make_shared<const IndexedDataset>(folder / "a"),
                                   plan.seq_length);
    const BatchShape shape = batch_shape(plan, mesh.run.mesh().place());
    WeightedSum sum;
    for (std::int64_t first = 0; first < source.size(); first += plan.batch.global_batch_size) {
        const auto load = [&] {
            return make_step_batch(source, shape, 1, first, plan.batch.global_batch_size);
        };
        const StepBatch batch = next_batch(load, mesh.run.mesh().place(), session());
        sum.add(mesh.run.engine().evaluate(batch).loss);
    }
    return sum;
}

/// The meshes of all ranks along one axis, of both methods of cp.
/// Meshes of one axis. There are none on more than 4 ranks, because the models have 4 layers.
std::vector<ParallelSpec> single_axes() {
    const std::int64_t ranks = session().size();
    if (ranks > 4) return {};
    std::vector<ParallelSpec> all(5);
    all[0].data = ranks;
    all[1].tensor = ranks;
    all[1].sequence_parallel = true;
    all[2].pipeline = ranks;
    all[3].context = ranks;
    all[4].context = ranks;
    all[4].context_method = ContextMethod::all_to_all;
    return all;
}

RunSpec spec_on(const ParallelSpec& parallel, const RunSpec& model) {
    RunSpec spec = model;
    spec.parallel = parallel;
    spec.training.micro_batch_size = 1;
    spec.training.global_batch_size = 2 * parallel.data.value_or(1);
    return spec;
}

TEST_CASE("Documents packed with reset_at_eod have the losses that they have alone") {
    // 24 tokens: the next window begins with the first token of the last document.
    const std::vector<Document> documents = {document(5, 9), document(50, 11), document(30, 4),
                                             document(20, 20)};
    for (const Model& model : models()) {
        if (model.name != "gpt" && model.name != "llama") continue;
        for (const ParallelSpec& parallel : single_axes()) {
            RunSpec spec = spec_on(parallel, model.spec);
            spec.training.seq_length = 24;
            spec.data.eod_id = end_of_document;
            spec.data.reset_at_eod = true;
            MeshRun mesh(spec);
            CAPTURE(model.name, mesh.run.plan().mesh.context, mesh.run.plan().mesh.tensor);
            const WeightedSum packed = loss_of(mesh, documents);
            WeightedSum alone;
            for (const Document& one : documents)
                alone.add(loss_of(mesh, {one}));
            CHECK(packed.weight == alone.weight);
            CHECK(packed.weight == 4 + 5 + 2 + 10);
            // Roundings of as many sums in fp32 as there are layers, each of as many terms as a
            // hidden state has.
            const double rounding = 0x1p-24 * static_cast<double>(mesh.run.plan().model.layers *
                                                                  mesh.run.plan().model.hidden);
            CHECK(std::abs(packed.sum - alone.sum) <= rounding * alone.sum);
            // Without it they see each other, which the comparison above would notice.
            spec.data.reset_at_eod = false;
            MeshRun together(spec);
            CHECK(std::abs(loss_of(together, documents).sum - alone.sum) > rounding * alone.sum);
        }
    }
}

void learn_nothing(Microbatch& microbatch) {
    std::fill(microbatch.weights.begin(), microbatch.weights.end(), 0.0f);
}

void learn_nothing(StepBatch& batch) {
    for (Microbatch& microbatch : batch.microbatches)
        learn_nothing(microbatch);
    batch.weight_sum = 0;
}

TEST_CASE("A step in which nothing is learned changes nothing on any mesh") {
    for (const MeshCase& mesh_case : covering_here(mesh_cases(session().size()))) {
        RunSpec spec;
        for (const Model& model : models())
            if (model.name == mesh_case.model) spec = model.spec;
        spec.parallel = mesh_case.parallel;
        spec.recompute = mesh_case.recompute;
        spec.training.micro_batch_size = mesh_case.micro_batch_size;
        INFO(mesh_case.name);
        MeshRun skipping(spec);
        MeshRun plain(spec);
        skipping.run.step(skipping.batch(1));
        plain.run.step(plain.batch(1));
        StepBatch nothing = skipping.batch(2);
        learn_nothing(nothing);
        CHECK(std::isnan(skipping.run.step(nothing)));
        const StepState state = skipping.run.engine().read_state();
        CHECK(state.skip == Skip::nothing_learned);
        CHECK(state.loss_sum == 0);
        CHECK(state.grad_norm == 0);
        CHECK(state.skipped_steps == 1);
        CHECK(state.updates == 1);
        // The next step is what it would have been.
        CHECK(skipping.run.step(skipping.batch(3)) == plain.run.step(plain.batch(3)));
        CHECK(owned_weights(skipping.run) == owned_weights(plain.run));
        const WeightedSum loss = skipping.run.engine().evaluate(nothing).loss;
        CHECK(loss.sum == 0);
        CHECK(loss.weight == 0);
    }
}

TEST_CASE("An evaluation has the loss of each source on any mesh") {
    for (const MeshCase& mesh_case : covering_here(mesh_cases(session().size()))) {
        RunSpec spec;
        for (const Model& model : models())
            if (model.name == mesh_case.model) spec = model.spec;
        spec.parallel = mesh_case.parallel;
        spec.training.micro_batch_size = mesh_case.micro_batch_size;
        spec.training.eval_interval = spec.training.eval_steps = 1;
        spec.data.validation = {{.prefix = "a"}, {.prefix = "b"}, {.prefix = "c"}};
        INFO(mesh_case.name);
        MeshRun mesh(spec);
        // The last of the three sources has no sequence.
        StepBatch batch = mesh.batch(1);
        for (Microbatch& microbatch : batch.microbatches) {
            for (std::int64_t b = 0; b < spec.training.micro_batch_size; ++b)
                microbatch.sources.push_back((microbatch.first_sequence + b) % 3 == 0 ? 1 : 0);
        }
        const EvaluationSums all = mesh.run.engine().evaluate(batch);
        const MeasureCounts counts = evaluation_counts(mesh.run.plan());
        REQUIRE(counts.sources == 3);
        REQUIRE(std::ssize(all.measures) == counts.total());
        WeightedSum sum;
        for (std::int32_t source = 0; source < 3; ++source) {
            // The loss of a source is what remains if all other tokens have weight 0.
            StepBatch part = batch;
            for (Microbatch& microbatch : part.microbatches) {
                for (std::size_t i = 0; i < microbatch.weights.size(); ++i) {
                    const auto b = i / static_cast<std::size_t>(spec.training.seq_length);
                    if (microbatch.sources[b] != source) microbatch.weights[i] = 0;
                }
            }
            const WeightedSum alone = mesh.run.engine().evaluate(part).loss;
            const WeightedSum& measured = all.measures[static_cast<std::size_t>(source)];
            // Sums in fp64 of the same losses, in another order.
            CHECK(std::abs(measured.sum - alone.sum) <= 1e-12 * alone.sum);
            sum.add(measured);
        }
        CHECK(all.measures[1].weight > 0);
        CHECK(all.measures[2].weight == 0);
        CHECK(sum.weight == all.loss.weight);
        CHECK(std::abs(sum.sum - all.loss.sum) <= 1e-12 * all.loss.sum);
        // The next evaluation starts from 0.
        CHECK(mesh.run.engine().evaluate(batch).measures[1].weight == all.measures[1].weight);
        // A step sums the loss alone.
        CHECK(mesh.run.step(batch) == MeshRun(spec).run.step(batch));
    }
}

TEST_CASE("A microbatch or a data rank in which nothing is learned adds nothing") {
    for (const ParallelSpec& parallel : single_axes()) {
        RunSpec spec = spec_on(parallel, models().front().spec);
        MeshRun part(spec);
        MeshRun whole(spec);
        const std::int64_t rank = part.run.mesh().place().dp;
        CAPTURE(part.run.plan().mesh.data, part.run.plan().mesh.context);
        // Only the first sequence of the global batch is learned: there is nothing in the second
        // microbatch, and nothing on data ranks beyond the first.
        StepBatch batch = part.batch(1);
        REQUIRE(batch.microbatches.size() == 2);
        if (rank > 0) learn_nothing(batch);
        learn_nothing(batch.microbatches[1]);
        const Microbatch learned = part.batch(1, 0).microbatches.front();
        batch.weight_sum = std::accumulate(learned.weights.begin(), learned.weights.end(), 0.0);
        StepBatch first = batch;
        first.microbatches.pop_back();
        CHECK(part.run.step(batch) == whole.run.step(first));
        CHECK(part.run.engine().read_state().skip == Skip::none);
        CHECK(part.run.gradients() == whole.run.gradients());
        CHECK(owned_weights(part.run) == owned_weights(whole.run));
    }
}

}  // namespace
}  // namespace gptrain::test
