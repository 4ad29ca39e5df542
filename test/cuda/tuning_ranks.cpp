// How the ranks of a run agree on algorithms, over the library in fake_cublas_lt.cpp and the
// emulator's device. The ranks are pipeline stages whose GEMMs differ.
#include <cmath>
#include <optional>

#include "calibrate/tuning.h"
#include "catch.h"
#include "comm/mpi_mesh.h"
#include "cuda/cuda_backend.h"
#include "cuda/fake_cublas_lt.h"
#include "emulator/grid.h"
#include "ranks.h"
#include "schedule/stage_plan.h"
#include "spec/make_plan.h"
#include "support/captured_stderr.h"
#include "tiny_run.h"

namespace gptrain::test {

std::unique_ptr<Backend> tested_backend() {
    return cuda::make_backend();
}

namespace {

std::int64_t runs() {
    return fake_cublas_lt_runs_of(fake_plain) + fake_cublas_lt_runs_of(fake_with_epilogue);
}

/// One start of a run on this rank.
class Start {
public:
    /// Rank 0 keeps its choices in `file`.
    Start(const RunSpec& spec, const std::filesystem::path& file)
        : backend_(cuda::make_backend(
              0, {.tune_gemms = true,
                  .tuning_file = session().rank() == 0 ? file : std::filesystem::path(),
                  .deterministic = spec.deterministic})),
          plan_(make_plan(spec, {.world_size = session().size(), .cuda = true})),
          mesh_(mpi_mesh(session(), plan_.mesh, mesh_connections(plan_), *backend_)),
          cost_(measure_run(plan_, mesh_.place(), memory_of(*backend_))) {}

    /// Returns how many GEMMs this rank ran to time them: besides, it runs each of its ops once.
    std::int64_t tune() {
        const std::int64_t before = runs();
        std::int64_t moves = 0;
        prepare_linear_ops(*backend_, cost_.linear_ops, op_limits(plan_), session(), [&] {
            ++moves;
            progress().record_move();
        });
        CHECK(moves >= std::ssize(cost_.linear_ops));
        return runs() - before - std::ssize(cost_.linear_ops);
    }

    /// No GEMM runs in it for the first time: the library might wait for the device to load code,
    /// and messages are in flight there.
    WeightedSum step_and_evaluate() {
        Engine engine(*backend_, mesh_, plan_, cost_.memory);
        engine.initialise();
        const std::int64_t loads = fake_cublas_lt_loads();
        engine.step(random_batch(plan_, 1));
        const WeightedSum loss = engine.evaluate(random_batch(plan_, 2)).loss;
        CHECK(fake_cublas_lt_loads() == loads);
        return loss;
    }

private:
    std::unique_ptr<Backend> backend_;
    RunPlan plan_;
    Mesh mesh_;
    StepCost cost_;
};

RunSpec pipeline_spec(Precision precision, bool llama) {
    RunSpec spec = llama ? tiny_llama_spec() : tiny_spec();
    if (llama) spec.model.ffn_hidden_size = 64;
    // One sequence and one layer for each stage have all GEMMs, and the emulator is slow; fp8
    // leaves out the first and the last layer.
    spec.training.global_batch_size = spec.training.micro_batch_size = 1;
    spec.training.seq_length = 32;
    // An op of other sizes runs several GEMMs.
    spec.model.vocab_size = 64;
    spec.model.num_layers = precision == Precision::fp8 ? 4 : session().size();
    spec.parallel.pipeline = session().size();
    spec.precision.compute = precision;
    return spec;
}

void use_devices() {
    fake_cublas_lt_refuse_slow(true);
    emulator::settings() = {.order = {}, .major = 9, .minor = 0, .shared_bytes = 227 << 10};
}

}  // namespace

TEST_CASE("rank 0 times the GEMMs of all ranks, and all compute by its choices") {
    use_devices();
    const bool first = session().rank() == 0;
    const auto [precision, llama] = GENERATE(table<Precision, bool>(
        {{Precision::fp32, false}, {Precision::bf16, true}, {Precision::fp8, true}}));
    const RunSpec spec = pipeline_spec(precision, llama);
    const TempFolder folder;
    const auto file = folder / "cache/gemms.txt";

    Start start(spec, file);
    CHECK((start.tune() > 0) == first);
    CHECK(std::filesystem::exists(file) == first);
    // A GEMM without a choice would use the slow algorithm, which is refused.
    const std::int64_t slow = fake_cublas_lt_runs(fake_slow);
    const std::int64_t fast = fake_cublas_lt_runs(fake_fast);
    CHECK(std::isfinite(start.step_and_evaluate().mean()));
    CHECK(fake_cublas_lt_runs(fake_slow) == slow);
    CHECK(fake_cublas_lt_runs(fake_fast) > fast);

    const std::string kept = first ? contents(file) : "";
    Start resumed(spec, file);
    CHECK(resumed.tune() == 0);
    CHECK((first ? contents(file) : "") == kept);
    resumed.step_and_evaluate();
    CHECK(fake_cublas_lt_runs(fake_slow) == slow);
}

TEST_CASE("a weight gradient in FP8 blocks is tried with the scales that it has") {
    use_devices();
    const auto strips = [](std::int64_t rows) {
        return MatrixLayout{.rows = rows, .cols = 144, .row_stride = 144, .dtype = DType::f8e4m3};
    };
    LinearOp op;
    op.kind = LinearOp::Kind::weight_grad;
    op.first = strips(32);
    op.second = strips(48);
    op.result = {.rows = 32, .cols = 48, .row_stride = 48};
    op.accumulate = op.in_blocks = 1;
    const auto backend =
        cuda::make_backend(0, {.tune_gemms = true, .attention = cuda::AttentionChoice::portable});
    const OpLimits limits = {
        .compute = DType::bf16, .sequences = 1, .seq_length = 144, .widest = 48};
    CHECK(contains(try_linear_ops(*backend, {op}, limits, [] {}), "\nentries 1\n"));
}

TEST_CASE("all ranks do epilogues apart where rank 0 found that faster") {
    use_devices();
    const RunSpec spec = pipeline_spec(Precision::bf16, false);
    const TempFolder folder;
    fake_cublas_lt_delay(fake_with_epilogue, 50);
    Start start(spec, folder / "gemms.txt");
    start.tune();
    fake_cublas_lt_delay(fake_with_epilogue, 0);
    Start resumed(spec, folder / "gemms.txt");
    CHECK(resumed.tune() == 0);
    for (Start* each : {&start, &resumed}) {
        const std::int64_t slow = fake_cublas_lt_runs(fake_slow);
        const std::int64_t with_epilogue = fake_cublas_lt_runs_of(fake_with_epilogue);
        const std::int64_t plain = fake_cublas_lt_runs_of(fake_plain);
        CHECK(std::isfinite(each->step_and_evaluate().mean()));
        CHECK(fake_cublas_lt_runs_of(fake_with_epilogue) == with_epilogue);
        CHECK(fake_cublas_lt_runs_of(fake_plain) > plain);
        CHECK(fake_cublas_lt_runs(fake_slow) == slow);
    }
}

TEST_CASE("where bits may differ the GEMMs with a gelu behind them are tuned as well") {
    use_devices();
    RunSpec spec = pipeline_spec(Precision::bf16, false);
    spec.deterministic = false;
    Start start(spec, {});
    // With this delay, leaving the GELU to the library is faster.
    fake_cublas_lt_delay(fake_plain, 20);
    start.tune();
    fake_cublas_lt_delay(fake_plain, 0);
    const std::int64_t slow = fake_cublas_lt_runs(fake_slow);
    CHECK(std::isfinite(start.step_and_evaluate().mean()));
    CHECK(fake_cublas_lt_runs(fake_slow) == slow);
}

TEST_CASE("a table of another machine is made anew on rank 0, which says so") {
    use_devices();
    const bool first = session().rank() == 0;
    const RunSpec spec = pipeline_spec(Precision::bf16, false);
    const TempFolder folder;
    const auto file = folder / "gemms.txt";
    test::fill(file, "gptrain gemms 1: another GPU\n1,2,3 00ff\nentries 1\n");
    std::optional<Start> start;
    const std::string said = stderr_of([&] { start.emplace(spec, file); });
    CHECK(contains(said, "results may differ from earlier runs in the last bits") == first);
    CHECK((start->tune() > 0) == first);
    CHECK(contains(contents(file), "another GPU") == !first);
    const std::int64_t slow = fake_cublas_lt_runs(fake_slow);
    start->step_and_evaluate();
    CHECK(fake_cublas_lt_runs(fake_slow) == slow);
}

TEST_CASE("ranks on different machines say that they compute in other ways") {
    use_devices();
    const RunSpec spec = pipeline_spec(Precision::bf16, false);
    emulator::settings().name = text("device of rank ", session().rank());
    Start start(spec, {});
    const std::string said = stderr_of([&] { start.tune(); });
    CHECK(contains(said, "a different GPU or library from rank 0") == (session().rank() == 0));
}

}  // namespace gptrain::test
