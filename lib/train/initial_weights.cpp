#include "train/initial_weights.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "train/source_weights.h"

namespace gptrain {

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
    : from_(std::move(from)), model_(model), ranks_(ranks), source_(from_, ranks) {
    ranks.run_on_all([&] { check(); });
}

std::string InitialWeights::fingerprint() const {
    return gptrain::fingerprint(source_, ranks_);
}

void InitialWeights::check() const {
    const ModelShape theirs = source_.model();
    if (theirs.lora) {
        fail(ExitCode::usage, "init_from: ", from_.string(),
             ": is an adapter; start from gptrain export --merge of it");
    }
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
    const std::filesystem::path& folder = source_.folder();
    std::error_code ignored;
    for (const std::string_view name : {"tokenizer.json", "tokenizer.model", "vocab.json"})
        if (std::filesystem::exists(folder / name, ignored)) return folder;
    return {};
}

void InitialWeights::load(Backend& backend, const StateSource& weights) {
    if (const HfFolder* folder = source_.hf()) {
        ranks_.run_on_all(
            [&] { weights([&](const NamedState& one) { read_weights(*folder, backend, one); }); });
    } else {
        source_.checkpoint().load(backend, weights, [&] { check(); });
    }
    if (ranks_.rank() == 0)
        print("starting with the weights of ",
              source_.hf() != nullptr ? from_.string() : source_.folder().string());
}

}  // namespace gptrain
