// A small model on any mesh, whose checkpoints are compared as wholes. One command per launch:
//
//   reshard train MESH FOLDER        two steps, a checkpoint in FOLDER, another step and checkpoint
//   reshard move MESH FROM FOLDER    loads the first checkpoint in FROM and saves it in FOLDER;
//                                    then another step and checkpoint
//   reshard equal A B STEP           compares the tensors that model.h5 shows in two folders after
//                                    that step, byte for byte, and what was measured in the step
//   reshard parity FOLDER...         compares the last step of each (loss, gradient norm, all
//                                    weights) with an uninterrupted run on one rank
//
// MESH: "dp.pp.v.cp.tp", and perhaps a value of parallel.shard: "dp.pp.v.cp.tp.weights".
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/log.h"
#include "checkpoint/folder.h"
#include "checkpoint/restart_point.h"
#include "checkpoint/saver.h"
#include "checkpoint/shard_record.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "reference.h"
#include "schedule/stage_plan.h"
#include "stored/interval_loss.h"
#include "stored/saved_run.h"
#include "support/hdf5_fixture.h"
#include "tiny_run.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t saved_step = 2;
constexpr std::int64_t last_step = saved_step + 1;

constexpr std::string_view mesh_form = "dp.pp.v.cp.tp or dp.pp.v.cp.tp.SHARD";

Sharded shard_from(std::string_view word) {
    for (const auto& [value, name] : words_of(Sharded::none))
        if (name == word) return value;
    fail(ExitCode::usage, word, ": should be the SHARD of ", mesh_form);
}

ParallelSpec parallel_from(const std::string& word) {
    std::vector<std::int64_t> sizes;
    std::string_view rest = word;
    while (sizes.size() < 5) {
        const std::size_t dot = rest.find('.');
        const auto size = parse_int(rest.substr(0, dot));
        if (!size) fail(ExitCode::usage, word, ": should be ", mesh_form);
        sizes.push_back(*size);
        rest = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
    }
    ParallelSpec parallel;
    parallel.data = sizes[0];
    parallel.pipeline = sizes[1];
    parallel.virtual_stages = sizes[2];
    parallel.context = sizes[3];
    parallel.tensor = sizes[4];
    parallel.sequence_parallel = sizes[4] > 1;
    if (sizes[2] > 1) parallel.schedule = ScheduleKind::interleaved_one_f_one_b;
    if (!rest.empty()) parallel.shard = shard_from(rest);
    return parallel;
}

/// Sizes that the meshes split unevenly; a tied head, grouped queries.
RunSpec spec_on(const ParallelSpec& parallel) {
    RunSpec spec = tiny_spec();
    spec.model.num_layers = 8;
    spec.model.hidden_size = 32;
    spec.model.num_attention_heads = 8;
    spec.model.num_query_groups = 2;
    spec.model.ffn_hidden_size = 64;
    spec.model.vocab_size = 101;
    spec.training.seq_length = 16;
    spec.training.micro_batch_size = 1;
    spec.training.global_batch_size = 16;
    spec.checkpoint.async = true;
    // With a smaller eps, gradients that are zero except for rounding would become full updates.
    spec.optimizer.eps = 1e-2;
    spec.parallel = parallel;
    return spec;
}

class MeshModel {
public:
    MeshModel(const MpiSession& ranks, const RunSpec& spec, const fs::path& folder)
        : ranks_(ranks),
          run_(spec, cpu::make_backend(), ranks.size(),
               [&](const RunPlan& plan, Backend& backend) {
                   return mpi_mesh(ranks, plan.mesh, mesh_connections(plan), backend);
               }),
          saver_(run_.backend(), run_.engine().memory()[MemoryUse::snapshot], ranks,
                 {{.folder = folder}, true}) {}

    void step(std::int64_t step) {
        loss_ = run_.step(random_batch(run_.plan(), step, 1, run_.mesh().place().dp));
    }
    /// The state after the step, and the step's loss and gradient norm, to the last bit.
    void save(std::int64_t step) {
        const StepState state = run_.engine().read_state();
        CheckpointMeta meta;
        meta.step = step;
        meta.state = to_json(SavedRun{.state = state,
                                      .spec_yaml = "none",
                                      .goodput = {},
                                      .losses = Json::array({loss_, state.grad_norm}),
                                      .interval_loss = IntervalLoss(1).to_json()});
        saver_.save(meta, source());
        saver_.wait();
    }
    void load(const fs::path& folder) {
        auto point = RestartPoint::find({folder / checkpoint_name(saved_step)}, ranks_);
        point->load(run_.backend(), source(), [] {});
        run_.engine().restore(saved_run(point->meta()).state);
    }

private:
    StateSource source() {
        return [this](const StateVisitor& visit) { run_.engine().visit(visit); };
    }

    const MpiSession& ranks_;
    TinyRun run_;
    CheckpointSaver saver_;
    double loss_ = 0;
};

void train_or_move(const MpiSession& ranks, const std::vector<std::string>& words) {
    const RunSpec spec = spec_on(parallel_from(words[1]));
    MeshModel model(ranks, spec, words.back());
    if (words[0] == "train") {
        for (std::int64_t step = 1; step <= saved_step; ++step)
            model.step(step);
    } else {
        model.load(words[2]);
    }
    model.save(saved_step);
    model.step(last_step);
    model.save(last_step);
}

/// A checkpoint as other programs see it.
struct Shown {
    Shown(const fs::path& folder, std::int64_t step)
        : checkpoint(folder / checkpoint_name(step)), manifest(read_manifest(checkpoint)) {
        for (const TensorRecord& tensor : manifest.tensors)
            names.push_back(text("/", tensor.group, "/", tensor.name));
        std::sort(names.begin(), names.end());
    }
    Hdf5Array<float> tensor(const std::string& name) const {
        return read_array<float>((checkpoint / "model.h5").string(), name);
    }
    /// Loss and gradient norm of the last step.
    Json measured() const { return saved_run(manifest.meta).losses; }

    fs::path checkpoint;
    Manifest manifest;
    std::vector<std::string> names;
};

void expect_equal(const Shown& a, const Shown& b) {
    if (a.names != b.names) fail(ExitCode::bug, "other tensors");
    for (const std::string& name : a.names) {
        const auto of_a = a.tensor(name);
        const auto of_b = b.tensor(name);
        const bool equal = of_a.shape == of_b.shape && !of_a.values.empty() &&
                           std::memcmp(of_a.values.data(), of_b.values.data(),
                                       of_a.values.size() * sizeof(float)) == 0;
        if (!equal) fail(ExitCode::bug, name, " differs");
    }
}

void expect_near(const std::string& what, double off, double allowed) {
    if (!(off <= allowed)) fail(ExitCode::bug, what, " is off by ", off, ", allowed: ", allowed);
}

/// The tolerance is that of all tests that compare meshes with one rank.
void expect_parity(const Shown& shown, const Reference& reference) {
    constexpr std::size_t last = last_step - 1;
    const auto expect_measured = [&](std::size_t i, const std::vector<double>& right,
                                     const std::vector<double>& noise) {
        const double value = shown.measured().at(i).get<double>();
        expect_near(text(shown.checkpoint.string(), i == 0 ? ": loss" : ": grad_norm"),
                    std::abs(value - right.at(last)), allowed(noise.at(last), right.at(last)));
    };
    expect_measured(0, reference.results.losses, reference.loss_noise);
    expect_measured(1, reference.results.grad_norms, reference.norm_noise);
    for (const auto& [name, values] : reference.results.weights) {
        expect_near(text(shown.checkpoint.string(), ": ", name),
                    distance(shown.tensor("/weight/" + name).values, values),
                    allowed(reference.weight_noise.at(name), norm(values)));
    }
}

bool run_command(const MpiSession& ranks, const std::vector<std::string>& words) {
    const std::string command = words.empty() ? "" : words[0];
    const std::size_t count = words.size();
    if ((command == "train" && count == 3) || (command == "move" && count == 4)) {
        train_or_move(ranks, words);
    } else if (command == "equal" && count == 4) {
        const std::int64_t step = parse_int(words[3]).value();
        const Shown a(words[1], step);
        const Shown b(words[2], step);
        expect_equal(a, b);
        // Before that step the two may have run on different meshes.
        if (step == last_step && a.measured() != b.measured()) fail(ExitCode::bug, "other losses");
    } else if (command == "parity") {
        const Reference reference = make_reference(spec_on({}), last_step);
        for (std::size_t i = 1; i < count; ++i)
            expect_parity(Shown(words[i], last_step), reference);
    } else {
        return false;
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const MpiSession ranks;
    try {
        if (!run_command(ranks, words)) fail(ExitCode::usage, "unknown command");
    } catch (const std::exception& error) {
        error_line("reshard", error.what());
        ranks.abort_all(ExitCode::bug);
    }
    return 0;
}
