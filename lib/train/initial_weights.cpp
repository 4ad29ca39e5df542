#include "train/initial_weights.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/log.h"
#include "checkpoint/commit.h"
#include "spec/make_plan.h"
#include "train/resume.h"

namespace gptrain {
namespace {

// Read at a time from a folder of transformers.
constexpr std::int64_t piece_elements = std::int64_t{1} << 22;

/// The model of the run that wrote a checkpoint.
ModelShape model_of(const RestartPoint& checkpoint) {
    const std::string source = (checkpoint.folder() / "manifest.json").string() + ": state.spec";
    RunSpec spec = parse_run_spec(saved_run(checkpoint.meta()).spec_yaml, source);
    spec.parallel = {};
    spec.training.global_batch_size.reset();
    spec.training.rampup = {};
    return make_plan(spec, {.world_size = 1, .cuda = false, .dry_run = true}).model;
}

StateSource weights_of(const StateSource& state) {
    return [&state](const StateVisitor& visit) {
        state([&](const NamedState& one) {
            if (one.group == "weight") visit(one);
        });
    };
}

void read_from(const HfFolder& folder, Backend& backend, const NamedState& state) {
    const Shard& shard = state.shard;
    const Tensor values = state.values.view({shard.elements()});
    std::vector<float> buffer;
    for (std::int64_t at = 0; at < shard.elements(); at += piece_elements) {
        Shard part = shard;
        part.flat_begin += at;
        part.flat_end = std::min(part.flat_begin + piece_elements, shard.flat_end);
        buffer.resize(static_cast<std::size_t>(part.elements()));
        folder.read(part, buffer);
        backend.upload(values.slice(0, at, part.elements()), std::as_bytes(std::span(buffer)));
    }
}

}  // namespace

void check_same_weights(const ModelShape& theirs, const ModelShape& ours,
                        const std::string& source) {
    const auto compare = [&](std::string_view key, const auto& there, const auto& here) {
        if (there == here) return;
        fail(ExitCode::usage, "init_from: ", source, ": model.", key, " is ", there, " there, but ",
             here, " in this run; make them equal");
    };
    compare("num_layers", theirs.layers, ours.layers);
    std::map<std::string, Shape> shapes;
    for (const Shard& tensor : model_tensors(theirs))
        shapes.emplace(tensor.name, tensor.global);
    for (const Shard& tensor : model_tensors(ours)) {
        const auto found = shapes.find(tensor.name);
        if (found == shapes.end()) {
            fail(ExitCode::usage, "init_from: ", source, ": has no tensor ", tensor.name,
                 ", which this run's model has with shape ", tensor.global.to_text());
        }
        if (found->second != tensor.global) {
            fail(ExitCode::usage, "init_from: ", source, ": tensor ", tensor.name, " has shape ",
                 found->second.to_text(), " there, but ", tensor.global.to_text(), " in this run");
        }
        shapes.erase(found);
    }
    if (!shapes.empty()) {
        fail(ExitCode::usage, "init_from: ", source, ": has tensor ", shapes.begin()->first,
             " with shape ", shapes.begin()->second.to_text(),
             ", which this run's model does not have");
    }
    compare("num_attention_heads", theirs.heads, ours.heads);
    compare("head_dim", theirs.head_dim, ours.head_dim);
    compare("position_embedding", name_of(theirs.position_embedding),
            name_of(ours.position_embedding));
    compare("normalization", name_of(theirs.normalization), name_of(ours.normalization));
    compare("activation", name_of(theirs.activation), name_of(ours.activation));
}

InitialWeights::InitialWeights(std::filesystem::path from, const ModelShape& model,
                               const MpiSession& ranks)
    : from_(std::move(from)), model_(model), ranks_(ranks) {
    bool is_folder = false;
    ranks.run_on_all([&] {
        is_folder = is_hf_folder(from_) && !std::filesystem::exists(from_ / "manifest.json");
        if (!is_folder) return;
        folder_ = std::make_unique<const HfFolder>(from_);
        check(folder_->shape());
    });
    if (is_folder) return;
    const bool is_index = from_.filename() == model_index_name;
    checkpoint_ = open_checkpoint(is_index ? from_.parent_path() : from_, ranks);
    ranks.run_on_all([&] { check(model_of(*checkpoint_)); });
}

void InitialWeights::check(const ModelShape& theirs) const {
    check_same_weights(theirs, model_, from_.string());
    if (ranks_.rank() != 0) return;
    const auto note = [](std::string_view key, const auto& there, const auto& here) {
        if (there == here) return;
        print("init_from: model.", key, " is ", there, " there and ", here, " in this run");
    };
    note("norm_eps", theirs.norm_eps, model_.norm_eps);
    if (model_.position_embedding != PositionEmbedding::rope) return;
    note("rope_theta", theirs.rope_theta, model_.rope_theta);
    note("max_position_embeddings", theirs.max_positions, model_.max_positions);
}

std::filesystem::path InitialWeights::tokenizer_folder() const {
    const std::filesystem::path& folder = checkpoint_ ? checkpoint_->folder() : from_;
    std::error_code ignored;
    for (const std::string_view name : {"tokenizer.json", "tokenizer.model", "vocab.json"})
        if (std::filesystem::exists(folder / name, ignored)) return folder;
    return {};
}

void InitialWeights::load(Backend& backend, const StateSource& state) {
    const StateSource weights = weights_of(state);
    if (folder_) {
        ranks_.run_on_all(
            [&] { weights([&](const NamedState& one) { read_from(*folder_, backend, one); }); });
    } else {
        checkpoint_->load(backend, weights, [&] { check(model_of(*checkpoint_)); });
    }
    if (ranks_.rank() == 0)
        print("starting with the weights of ",
              checkpoint_ ? checkpoint_->folder().string() : from_.string());
}

}  // namespace gptrain
