#include "stored/initial_weights.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/log.h"
#include "base/philox.h"
#include "spec/spec_json.h"
#include "stored/load_streamed.h"
#include "stored/source_weights.h"
#include "stored/upcycling.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {
namespace {

constexpr std::string_view table_name = "prompt.weight";

/// The embeddings of `count` tokens, each a function of (seed, its number).
std::vector<float> drawn_embeddings(const ModelSource& source, std::int64_t count,
                                    std::uint64_t seed) {
    const ModelShape model = source.model();
    const PhiloxKey key = philox_stream(seed, name_hash(table_name), 0, 0);
    SourceWeights weights(source);
    std::vector<float> table(static_cast<std::size_t>(count * model.hidden));
    auto rest = std::span(table);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t id = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, key)[0] %
                                static_cast<std::uint32_t>(model.vocab);
        Shard row = Shard::whole("wte.weight", {model.vocab, model.hidden});
        row.flat_begin = id * model.hidden;
        row.flat_end = row.flat_begin + model.hidden;
        const auto values = rest.first(static_cast<std::size_t>(model.hidden));
        weights.read(row, values);
        rest = rest.subspan(values.size());
    }
    return table;
}

/// The weights' place: of an adapter of PEFT, that of its base model.
std::filesystem::path place_of_weights(const std::filesystem::path& from, bool adapted,
                                       const MpiSession& ranks) {
    std::filesystem::path place = from;
    ranks.run_on_all([&] {
        if (!is_peft_folder(from)) return;
        if (!adapted) {
            fail(ExitCode::usage, "init_from: ", from.string(),
                 ": is an adapter of PEFT; to train it on, give the run its section adapter: ",
                 "{kind: lora, ...}, or merge it into its model with gptrain export --merge");
        }
        place = peft_base(from, "give its folder there");
    });
    return place;
}

/// Error (usage) that names the key if two models differ in it.
struct Comparison {
    const std::string& source;  ///< of the other model

    void operator()(std::string_view key, const auto& there, const auto& here) const {
        if (there == here) return;
        fail(ExitCode::usage, "init_from: ", source, ": model.", key, " is ", there, " there, but ",
             here, " in this run; make them equal");
    }
};

void check_same_tensors(const ModelShape& theirs, const ModelShape& ours,
                        const std::string& source) {
    std::map<std::string, Shape> shapes;
    for (const Shard& tensor : whole_tensors(theirs))
        shapes.emplace(tensor.name, tensor.global);
    for (const Shard& tensor : whole_tensors(ours)) {
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
}

void check_same_layers(const ModelShape& theirs, const ModelShape& ours,
                       const Comparison& compare) {
    compare("num_attention_heads", theirs.heads, ours.heads);
    compare("head_dim", theirs.head_dim, ours.head_dim);
    compare("position_embedding", name_of(theirs.position_embedding),
            name_of(ours.position_embedding));
    compare("normalization", name_of(theirs.normalization), name_of(ours.normalization));
    compare("activation", name_of(theirs.activation), name_of(ours.activation));
    compare("qk_norm", name_of(theirs.qk_norm), name_of(ours.qk_norm));
    compare("norm_placement", name_of(theirs.norm_placement), name_of(ours.norm_placement));
    compare("parallel_residual", name_of(theirs.parallel_residual),
            name_of(ours.parallel_residual));
    compare("embedding_scale", theirs.embedding_scale, ours.embedding_scale);
    compare("rotary_fraction", theirs.rotary_fraction, ours.rotary_fraction);
    const auto json = [](const auto& value) { return to_line(Json(value)); };
    compare("unrotated_layers", json(theirs.unrotated_layers), json(ours.unrotated_layers));
    compare("attention_softcap", theirs.attention_softcap.value_or(0),
            ours.attention_softcap.value_or(0));
    compare("logit_softcap", theirs.logit_softcap.value_or(0), ours.logit_softcap.value_or(0));
}

void check_same_router(const ExpertsSpec& theirs, const ExpertsSpec& ours,
                       const Comparison& compare) {
    compare("experts.per_token", theirs.per_token, ours.per_token);
    compare("experts.router.score", name_of(theirs.router.score), name_of(ours.router.score));
    compare("experts.router.normalize", theirs.router.normalize, ours.router.normalize);
    compare("experts.router.scale", theirs.router.scale, ours.router.scale);
    compare("experts.router.groups.count", theirs.rule().groups, ours.rule().groups);
    compare("experts.router.groups.keep", theirs.rule().kept_groups, ours.rule().kept_groups);
}

}  // namespace

void check_same_weights(const ModelShape& theirs, const ModelShape& ours,
                        const std::string& source) {
    const Comparison compare = {source};
    compare("num_layers", theirs.layers, ours.layers);
    check_same_tensors(theirs, ours, source);
    check_same_layers(theirs, ours, compare);
    if (theirs.experts && ours.experts) check_same_router(*theirs.experts, *ours.experts, compare);
    const auto objective = [](const ModelShape& model) {
        return model.bidirectional ? "mlm" : "causal";
    };
    if (theirs.bidirectional != ours.bidirectional) {
        fail(ExitCode::usage, "init_from: ", source, ": objective is ", objective(theirs),
             " there, but ", objective(ours), " in this run; make them equal");
    }
}

InitialWeights::InitialWeights(std::filesystem::path from, const ModelShape& model, bool adapted,
                               const MpiSession& ranks)
    : from_(std::move(from)),
      model_(model),
      adapted_(adapted),
      ranks_(ranks),
      source_(place_of_weights(from_, adapted, ranks), ranks) {
    ranks.run_on_all([&] { check(); });
}

void InitialWeights::open_adapter(const ModelShape& model) {
    if (!is_peft_folder(from_)) return;
    peft_ = open_peft(from_, source_);
    const AdapterSpec& theirs = peft_->adapter();
    if (!model.lora) {
        fail(ExitCode::usage, "init_from: ", from_.string(),
             ": is a LoRA adapter, but adapter.kind is another one; set adapter.kind: lora");
    }
    const auto compare = [&](std::string_view key, const auto& there, const auto& here) {
        if (there == here) return;
        fail(ExitCode::usage, "init_from: ", from_.string(), ": adapter.", key, " is ", there,
             " there, but ", here, " in this run; make them equal");
    };
    const auto words = [](std::vector<LinearName> targets) {
        std::sort(targets.begin(), targets.end());
        std::string list;
        for (const LinearName target : targets)
            list += text(list.empty() ? "[" : ", ", name_of(target));
        return list + "]";
    };
    compare("rank", theirs.rank, model.lora->rank);
    compare("targets", words(theirs.targets), words(model.lora->targets));
    compare("alpha", text(theirs.alpha),
            text(model.lora->scale * static_cast<double>(model.lora->rank)));
}

void InitialWeights::load_adapter(Backend& backend, const StateSource& adapter) {
    if (!peft_) return;
    const WeightReader read = [&](const Shard& part, std::span<float> to) {
        peft_->read(part, to);
    };
    ranks_.run_on_all([&] {
        adapter([&](const NamedState& state) {
            if (state.group != "weight" || !is_adapter_parameter(state.shard.name)) return;
            read_weights(read, backend, state);
        });
    });
    print("starting with the adapter of ", from_.string());
}

std::string InitialWeights::fingerprint() const {
    return gptrain::fingerprint(source_, ranks_);
}

void InitialWeights::check() const {
    const ModelShape theirs = source_.model();
    if (theirs.lora) {
        fail(ExitCode::usage, "init_from: ", from_.string(),
             ": is an adapter; merge it into its model with gptrain export --merge and give the "
             "result");
    }
    if (theirs.prompt) {
        fail(ExitCode::usage, "init_from: ", from_.string(),
             ": is an adapter of virtual tokens, not a model; start from the model that it adapts");
    }
    const bool copies = upcycles(theirs, model_);
    if (copies && adapted_) {
        fail(ExitCode::usage, "init_from: ", from_.string(),
             ": has no experts; train the experts first, and then an adapter of the result");
    }
    const ModelShape ours = copies ? dense_form(model_, from_.string()) : model_;
    check_same_weights(theirs, ours, from_.string());
    const auto note = [](std::string_view key, const auto& there, const auto& here) {
        if (there == here) return;
        print("init_from: model.", key, " is ", there, " there and ", here, " in this run");
    };
    note("norm_eps", theirs.norm_eps, model_.norm_eps);
    const Json here = attention_settings(model_);
    const Json there = attention_settings(theirs);
    for (const auto& [key, value] : here.items())
        note(key, to_line(there.at(key)), to_line(value));
    if (model_.position_embedding != PositionEmbedding::rope) return;
    note("rope_theta", theirs.rope_theta, model_.rope_theta);
    note("rope_theta.window", theirs.window_rope_theta.value_or(theirs.rope_theta),
         model_.window_rope_theta.value_or(model_.rope_theta));
    note("max_position_embeddings", theirs.max_positions, model_.max_positions);
}

void InitialWeights::check_older() const {
    if (adapted_) refuse_older_weights(source_);
    check();
}

std::filesystem::path InitialWeights::tokenizer_folder() const {
    const std::filesystem::path& folder = source_.folder();
    return tokenizers_in(folder).empty() ? std::filesystem::path() : folder;
}

void InitialWeights::load_virtual_tokens(Backend& backend, const StateSource& adapter,
                                         const SoftPrompt& prompt, std::uint64_t seed) {
    std::string message;
    ranks_.run_on_first([&] {
        const std::vector<float> table = drawn_embeddings(source_, prompt.tokens, seed);
        message.assign(reinterpret_cast<const char*>(table.data()), table.size() * sizeof(float));
    });
    message = ranks_.broadcast(std::move(message));
    const auto bytes = std::as_bytes(std::span(message));
    adapter([&](const NamedState& state) {
        if (state.group != "weight" || state.shard.name != table_name) return;
        if (state.shard.elements() == 0) return;
        const std::int64_t first = state.shard.box.offset[0] * model_.hidden;
        const auto begin = static_cast<std::size_t>(first + state.shard.flat_begin) * sizeof(float);
        const auto size = static_cast<std::size_t>(state.shard.elements()) * sizeof(float);
        backend.upload(state.values, bytes.subspan(begin, size));
    });
}

void InitialWeights::load(Backend& backend, const StateSource& weights, std::uint64_t seed) {
    const bool copies = upcycles(source_.model(), model_);
    load_alike(backend, copies ? as_dense(weights) : weights);
    if (copies && model_.experts->upcycling_noise > 0)
        add_noise(backend, weights, seed, model_.experts->upcycling_noise);
    report();
    if (copies) print("each expert starts as a copy of the mlp of its layer");
}

void InitialWeights::load_alike(Backend& backend, const StateSource& weights) {
    if (const HfFolder* folder = source_.hf()) {
        ranks_.run_on_all([&] {
            const WeightReader read = [&](const Shard& part, std::span<float> to) {
                folder->read(part, to);
            };
            weights([&](const NamedState& one) { read_weights(read, backend, one); });
        });
    } else {
        source_.checkpoint().load(backend, weights, [&] { check_older(); });
    }
}

void InitialWeights::load_streamed(Backend& backend, std::span<const StreamedState> weights) {
    if (upcycles(source_.model(), model_)) {
        fail(ExitCode::usage, "init_from: ", from_.string(),
             ": has no experts, and copies of its mlps cannot be quantised; unset precision.frozen "
             "for the run that starts with it");
    }
    gptrain::load_streamed(source_, backend, ranks_, weights, [&] { check_older(); });
    report();
}

void InitialWeights::report() const {
    const bool as_given = source_.hf() != nullptr && !peft_;
    print("starting with the weights of ", as_given ? from_.string() : source_.folder().string());
}

}  // namespace gptrain
