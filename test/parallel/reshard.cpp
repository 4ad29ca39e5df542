// A small model on any mesh, whose checkpoints are compared as wholes. One command a launch:
//
//   reshard train MESH FOLDER        two steps, a checkpoint in FOLDER, and one step more
//   reshard move MESH FROM FOLDER    loads the checkpoint in FROM, saves it in FOLDER, one step
//   more reshard compare A B              the tensors that their model.h5 show, byte for byte
//
// MESH: "dp.pp.v.cp.tp". The first two print the loss of the step that comes after the checkpoint.
#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "checkpoint/folder.h"
#include "checkpoint/restart_point.h"
#include "checkpoint/saver.h"
#include "comm/mpi_mesh.h"
#include "cpu/cpu_backend.h"
#include "schedule/stage_plan.h"
#include "support/hdf5_fixture.h"
#include "tiny_run.h"
#include "train/resume.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t saved_step = 2;

ParallelSpec parallel_from(const std::string& word) {
    std::vector<std::int64_t> sizes;
    std::string_view rest = word;
    while (sizes.size() < 5) {
        const std::size_t dot = rest.find('.');
        const auto size = parse_int(rest.substr(0, dot));
        if (!size) fail(ExitCode::usage, word, ": should be dp.pp.v.cp.tp");
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
    return parallel;
}

/// Sizes that the meshes cut into unequal parts; a tied head, grouped queries.
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
    spec.parallel = parallel;
    return spec;
}

class MeshModel {
public:
    MeshModel(const MpiSession& ranks, const RunSpec& spec)
        : ranks_(ranks),
          run_(spec, make_cpu_backend(), ranks.size(), [&](const RunPlan& plan, Backend& backend) {
              return mpi_mesh(ranks, plan.mesh, mesh_links(plan), backend);
          }) {}

    double step(std::int64_t step) {
        return run_.step(random_batch(run_.plan(), step, 1, run_.mesh().place().dp));
    }
    void save(const fs::path& folder) {
        CheckpointSaver saver(run_.backend(), run_.engine().memory()[MemoryUse::snapshot], ranks_,
                              {{.folder = folder}, true});
        CheckpointMeta meta;
        meta.step = saved_step;
        meta.state =
            to_json(SavedRun{run_.engine().read_state(), "none", Goodput::Record{}, Json::array()});
        saver.save(meta, source());
        saver.wait();
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
};

void train_or_move(const MpiSession& ranks, const std::vector<std::string>& words) {
    const RunSpec spec = spec_on(parallel_from(words[1]));
    MeshModel model(ranks, spec);
    if (words[0] == "train") {
        for (std::int64_t step = 1; step <= saved_step; ++step)
            model.step(step);
    } else {
        model.load(words[2]);
    }
    model.save(words.back());
    const double loss = model.step(saved_step + 1);
    ranks.first_alone([&] { print("loss ", loss); });
}

std::vector<std::string> datasets_of(const std::string& file) {
    std::vector<std::string> names;
    const Manifest manifest = read_manifest(fs::path(file).parent_path());
    for (const TensorRecord& tensor : manifest.tensors)
        names.push_back(text("/", tensor.group, "/", tensor.name));
    std::sort(names.begin(), names.end());
    return names;
}

void compare(const fs::path& a, const fs::path& b) {
    const std::string file_a = (a / checkpoint_name(saved_step) / "model.h5").string();
    const std::string file_b = (b / checkpoint_name(saved_step) / "model.h5").string();
    const std::vector<std::string> names = datasets_of(file_a);
    if (names != datasets_of(file_b)) fail(ExitCode::bug, "other tensors");
    for (const std::string& name : names) {
        const auto of_a = read_array<float>(file_a, name);
        const auto of_b = read_array<float>(file_b, name);
        const bool equal = of_a.shape == of_b.shape && !of_a.values.empty() &&
                           std::memcmp(of_a.values.data(), of_b.values.data(),
                                       of_a.values.size() * sizeof(float)) == 0;
        if (!equal) fail(ExitCode::bug, name, " differs");
    }
    print("equal: ", names.size(), " tensors");
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const MpiSession ranks;
    try {
        if (words.size() == 3 && words[0] == "compare")
            compare(words[1], words[2]);
        else if ((words.size() == 3 && words[0] == "train") ||
                 (words.size() == 4 && words[0] == "move"))
            train_or_move(ranks, words);
        else
            fail(ExitCode::usage, "unknown command");
    } catch (const std::exception& error) {
        error_line("reshard", error.what());
        ranks.end_all(ExitCode::bug);
    }
    return 0;
}
