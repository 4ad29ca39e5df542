#include "stored/identity.h"

#include <map>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "data/split.h"

namespace gptrain {
namespace {

Json sources(const std::vector<SourceIdentity>& identities) {
    Json list = Json::array();
    for (const SourceIdentity& source : identities) {
        list.push_back({{"fingerprint", source.fingerprint},
                        {"weight", source.weight},
                        {"path", source.prefix.string()},
                        {"tokens", source.tokens}});
    }
    return list;
}

/// As read by saved_data (saved_run.h). Values that follow from the length of the samples are left
/// out, as in checkpoints from before it could change.
Json progress_json(const SourceProgress& source, std::int64_t seq_length) {
    Json json = {{"fingerprint", source.fingerprint},
                 {"pass", source.pass},
                 {"num_samples", source.num_samples},
                 {"needed", source.needed},
                 {"given", source.given}};
    if (source.seq_length != seq_length) json["seq_length"] = source.seq_length;
    for (const LengthChange& change : source.changes)
        json["changes"].push_back({{"seq_length", change.seq_length}, {"given", change.given}});
    return json;
}

Json phase_json(const DataPhase& phase, std::int64_t seq_length) {
    Json list = Json::array();
    for (const SourceProgress& source : phase.sources)
        list.push_back(progress_json(source, seq_length));
    Json json = {{"first_sample", phase.first_sample}, {"sources", std::move(list)}};
    if (phase.first_token != checked_mul(phase.first_sample, seq_length))
        json["first_token"] = phase.first_token;
    return json;
}

/// True for what may change with data.on_change: continue.
bool may_continue(std::string_view key) {
    for (const std::string_view part : {"data.train", "data.validation", "data.num_samples",
                                        "data.phase", "training.seq_length"}) {
        if (key.starts_with(part)) return true;
    }
    return false;
}

/// True if positions need no parameters.
bool rotates(const nlohmann::json& flat) {
    const auto found = flat.find("/model/position_embedding");
    return found != flat.end() && *found == name_of(PositionEmbedding::rope);
}

/// With sources for validation every source is used whole, so the orders of training depend on
/// whether there are any.
bool same_split(const nlohmann::json& before, const Json& now) {
    const auto no_validation = [](const auto& flat) {
        return flat.contains("/data/validation") && flat["/data/validation"].empty();
    };
    return no_validation(before) == no_validation(now);
}

/// True if the weights of data.split are in the same proportions, or not used.
bool same_shares(const nlohmann::json& saved, const Json& current) {
    const auto unused = [](const auto& flat) { return !flat.contains("/data/validation"); };
    if (unused(saved) && unused(current)) return true;
    const std::string_view before = saved.at("/data/split").get_ref<const std::string&>();
    const std::string_view now = current.at("/data/split").get_ref<const std::string&>();
    return parse_split(before).parts == parse_split(now).parts;
}

/// Why a key that concerns data cannot change, and what to do; empty for other keys.
std::string_view why_fixed(std::string_view key) {
    if (!key.starts_with("data.validation") && !key.starts_with("data.split")) return "";
    return "it decides which part of each source is for training, so the run could not go on in "
           "its order, not even with data.on_change: continue; ";
}

/// True for a key of a source that ends so: "data.train.0.fingerprint".
bool is_of_source(std::string_view key, std::string_view end) {
    return (key.starts_with("data.train.") || key.starts_with("data.validation.")) &&
           key.ends_with(end);
}

/// The value at a pointer of a flat identity, as JSON.
std::string value_at(const auto& identity, const std::string& pointer) {
    return identity.contains(pointer) ? to_line(identity[pointer]) : "absent";
}

/// The source with the fingerprint at `pointer`: "3,985 tokens of "PATH"".
std::string source_words(const auto& identity, const std::string& pointer) {
    if (!identity.contains(pointer)) return "absent";
    const std::string source = pointer.substr(0, pointer.rfind('/'));
    const auto tokens = identity.find(source + "/tokens");
    if (tokens == identity.end() || !tokens->is_number_integer())
        return "unknown (saved by an older program)";
    return text(counted(tokens->template get<std::int64_t>(), "token"), " of ",
                value_at(identity, source + "/path"));
}

/// How the identities differ at `pointer`: in words where the values are checksums of files.
std::string difference(const nlohmann::json& before, const Json& now, const std::string& pointer,
                       const std::string& key) {
    if (is_of_source(key, ".fingerprint")) {
        const std::string source = key.substr(0, key.rfind('.'));
        const std::string then = source_words(before, pointer);
        const std::string today = source_words(now, pointer);
        if (then == today)
            return text(source, ": the ", today, " are not those of the checkpoint any more");
        return text(source, " has other tokens: ", then, " in the checkpoint, ", today,
                    " in the run spec");
    }
    const std::string was = value_at(before, pointer);
    const std::string is = value_at(now, pointer);
    constexpr std::string_view none = "\"\"";
    if (key == "data.tokenizer" && is == none)
        return text(key, " is none, but the checkpoint has a tokenizer");
    if (key == "data.tokenizer" && was == none)
        return text(key, " is set, but the checkpoint has no tokenizer");
    if (key == "data.tokenizer") return text(key, " is not the tokenizer of the checkpoint");
    return text(key, " is ", was, " in the checkpoint but ", is, " in the run spec");
}

/// The settings of a spec in YAML block style: "section.key" -> value.
std::map<std::string, std::string> settings_of(const std::string& yaml) {
    std::map<std::string, std::string> settings;
    std::string section;
    for (std::size_t begin = 0; begin < yaml.size();) {
        const std::size_t end = std::min(yaml.find('\n', begin), yaml.size());
        const std::string line = yaml.substr(begin, end - begin);
        begin = end + 1;
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || line[0] == '#') continue;
        const std::size_t indent = line.find_first_not_of(' ');
        const std::string key = line.substr(indent, colon - indent);
        const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
        if (indent == 0) section = key;
        settings[indent == 0 ? key : section + "." + key] += value;
    }
    return settings;
}

/// Weights of losses and the rate of the bias may change, but not whether there is a bias.
Json experts_json(const ModelShape& model) {
    const ExpertsSpec& experts = *model.experts;
    const RouterSpec& router = experts.router;
    Json json = {{"count", experts.count},
                 {"per_token", experts.per_token},
                 {"ffn_hidden_size", experts.ffn_hidden_size},
                 {"layers", "all"},
                 {"router",
                  {{"score", name_of(router.score)},
                   {"normalize", router.normalize},
                   {"scale", router.scale},
                   {"logit_bias", router.logit_bias}}},
                 {"balance", {{"bias_rate", experts.balance.bias_rate ? "a number" : "none"}}}};
    if (experts.bias) json["bias"] = true;
    if (experts.shared) {
        json["shared"] = {{"ffn_hidden_size", experts.shared->ffn_hidden_size},
                          {"gate", experts.shared->gate}};
    }
    if (router.groups)
        json["router"]["groups"] = {{"count", router.groups->count}, {"keep", router.groups->keep}};
    if (model.expert_layers(model.layers) == model.layers) return json;
    std::string layers;
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        if (model.has_experts(layer)) layers += text(layers.empty() ? "" : ", ", layer);
    json["layers"] = layers;
    return json;
}

/// Keys that older checkpoints lack count only where they are set.
void add_variant(const ModelShape& model, Json& identity) {
    if (model.qkv_bias != model.bias) identity["qkv_bias"] = model.qkv_bias;
    if (model.attention_bias != model.bias) identity["attention_bias"] = model.attention_bias;
    if (model.norm_bias != model.bias) identity["norm_bias"] = model.norm_bias;
    if (model.head_bias) identity["head_bias"] = true;
    if (model.qk_norm == QkNorm::head) identity["qk_norm"] = true;
    if (model.qk_norm == QkNorm::all) identity["qk_norm"] = name_of(model.qk_norm);
    if (model.norm_placement != NormPlacement::before)
        identity["norm_placement"] = name_of(model.norm_placement);
    if (model.parallel_residual != ParallelResidual::none)
        identity["parallel_residual"] = name_of(model.parallel_residual);
    if (model.attention_softcap) identity["attention_softcap"] = *model.attention_softcap;
    if (model.attention_sinks) identity["attention_sinks"] = true;
    if (model.logit_softcap) identity["logit_softcap"] = *model.logit_softcap;
    if (model.embedding_scale != 1) identity["embedding_scale"] = model.embedding_scale;
    if (model.embedding_norm) identity["embedding_norm"] = true;
    if (model.rotary_fraction != 1) identity["rotary_fraction"] = model.rotary_fraction;
    if (!model.unrotated_layers.empty()) identity["unrotated_layers"] = model.unrotated_layers;
    if (model.window_rope_theta) identity["window_rope_theta"] = *model.window_rope_theta;
    if (const auto& scaling = model.rope_scaling) {
        identity["rope_scaling"] = {
            {"kind", name_of(scaling->kind)},
            {"factor", scaling->factor},
            {"original_max_position_embeddings", scaling->original_max_position_embeddings},
            {"low_freq_factor", scaling->low_freq_factor},
            {"high_freq_factor", scaling->high_freq_factor},
            {"beta_fast", scaling->beta_fast},
            {"beta_slow", scaling->beta_slow},
            {"attention_factor", scaling->attention_factor.value_or(0)}};
    }
    if (model.sliding_window) {
        identity["sliding_window"] = *model.sliding_window;
        identity["full_attention_layers"] = model.full_attention_layers;
    }
    if (model.experts) identity["experts"] = experts_json(model);
}

Json lora_json(const AdapterSpec& adapter) {
    Json targets = Json::array();
    for (const LinearName target : adapter.targets)
        targets.push_back(name_of(target));
    return {{"kind", name_of(adapter.kind)},
            {"rank", adapter.rank},
            {"alpha", adapter.alpha},
            {"targets", std::move(targets)}};
}

/// Without the settings that only decide the initial values: they may change.
Json prompt_json(const AdapterSpec& adapter, const SoftPrompt& prompt) {
    Json json = {{"kind", name_of(adapter.kind)}, {"virtual_tokens", prompt.tokens}};
    if (prompt.encoder_hidden > 0) json["encoder_hidden_size"] = prompt.encoder_hidden;
    return json;
}

Json adapter_json(const AdapterSpec& adapter, const ModelShape& model, const std::string& adapted) {
    Json json = model.prompt ? prompt_json(adapter, *model.prompt) : lora_json(adapter);
    json["init_from"] = adapted;
    return json;
}

}  // namespace

Json run_identity(const RunSpec& spec, const RunPlan& plan, const TrainingData& data,
                  const Fingerprints& fingerprints) {
    const ModelShape& model = plan.model;
    Json identity = Json::object();
    identity["model"] = {{"num_layers", model.layers},
                         {"hidden_size", model.hidden},
                         {"num_attention_heads", model.heads},
                         {"num_query_groups", model.groups},
                         {"head_dim", model.head_dim},
                         {"ffn_hidden_size", model.ffn},
                         {"vocab_size", model.vocab},
                         {"max_position_embeddings", model.max_positions},
                         {"position_embedding", name_of(model.position_embedding)},
                         {"rope_theta", model.rope_theta},
                         {"normalization", name_of(model.normalization)},
                         {"norm_eps", model.norm_eps},
                         {"activation", name_of(model.activation)},
                         {"bias", model.bias},
                         {"tie_embeddings", model.tie_embeddings},
                         {"init_std", model.init_std}};
    add_variant(model, identity["model"]);
    identity["data"] = {{"tokenizer", fingerprints.tokenizer},
                        {"train", sources(data.train_sources)},
                        {"validation", sources(data.validation_sources)},
                        {"split", spec.data.split},
                        {"num_samples", data.num_samples}};
    if (data.phase) identity["data"]["phase"] = phase_json(*data.phase, plan.seq_length);
    if (const auto* const mlm = std::get_if<MlmSpec>(&plan.objective)) {
        identity["objective"] = {{"kind", name_of(MlmSpec::kind)},
                                 {"mask_id", mlm->mask_id.value_or(-1)}};
    }
    if (spec.adapter)
        identity["adapter"] = adapter_json(*spec.adapter, model, fingerprints.adapted);
    identity["seed"] = spec.seed;
    identity["training"] = {{"seq_length", plan.seq_length}};
    if (!spec.training.frozen.empty()) identity["training"]["frozen"] = spec.training.frozen;
    identity["optimizer"] = {{"name", spec.optimizer.name}};
    if (spec.optimizer.state != MomentFormat::fp32)
        identity["optimizer"]["state"] = name_of(spec.optimizer.state);
    if (spec.precision.main_weights != Precision::fp32)
        identity["precision"] = {{"main_weights", name_of(spec.precision.main_weights)}};
    return identity;
}

void check_identity(const Json& saved, const Json& current, const std::string& checkpoint,
                    OnChange on_change) {
    // A map with sorted keys: lookups in Json are linear, and the saved identity may be large.
    const nlohmann::json before = nlohmann::json(saved).flatten();
    const Json now = current.flatten();
    const bool any_length = rotates(before);
    const bool split_holds = same_split(before, now);
    const auto compare = [&](const std::string& pointer) {
        const std::string old_value = value_at(before, pointer);
        if (old_value == value_at(now, pointer)) return;
        if (any_length && pointer == "/model/max_position_embeddings") return;
        if (pointer == "/data/split" && before.contains(pointer) && before[pointer].is_string() &&
            same_shares(before, now))
            return;
        std::string key = pointer.substr(1);
        for (char& c : key)
            c = c == '/' ? '.' : c;
        if (is_of_source(key, ".path") || is_of_source(key, ".tokens")) return;
        if (key == "model.max_position_embeddings") {
            fail(ExitCode::usage, checkpoint,
                 ": cannot resume: ", difference(before, now, pointer, key),
                 ", where auto takes training.seq_length; set ", key, ": ", old_value,
                 ", which allows any training.seq_length up to it, or start a new run "
                 "in another output_dir");
        }
        if (key == "adapter.init_from" && before.contains(pointer) && now.contains(pointer)) {
            fail(ExitCode::usage, checkpoint,
                 ": cannot resume: the adapter was trained on other weights than those that "
                 "init_from finds now: it was changed, or their run has gone on, or they were "
                 "replaced; set init_from to the checkpoint that the adapter was trained on");
        }
        const bool may_change =
            may_continue(key) && (split_holds || !key.starts_with("data.validation"));
        if (may_change && on_change == OnChange::go_on) return;
        fail(ExitCode::usage, checkpoint,
             ": cannot resume: ", difference(before, now, pointer, key), "; ",
             may_change ? "" : why_fixed(key), "change it back, ",
             may_change ? "set data.on_change: continue to go on with other data, " : "",
             "or start a new run in another output_dir",
             may_change || why_fixed(key).empty() ? "" : ", with init_from from these weights");
    };
    for (const auto& [key, unused] : now.items())
        compare(key);
    for (const auto& [key, unused] : before.items())
        compare(key);
}

std::string setting_of(const std::string& yaml, const std::string& key) {
    const auto settings = settings_of(yaml);
    const auto found = settings.find(key);
    return found == settings.end() ? "" : found->second;
}

std::vector<ChangedSetting> changed_settings(const std::string& before, const std::string& now) {
    const auto old_settings = settings_of(before);
    std::vector<ChangedSetting> changes;
    for (const auto& [key, value] : settings_of(now)) {
        const auto old_value = old_settings.find(key);
        const std::string was = old_value == old_settings.end() ? "(absent)" : old_value->second;
        if (was != value) changes.push_back({key, was, value});
    }
    return changes;
}

}  // namespace gptrain
