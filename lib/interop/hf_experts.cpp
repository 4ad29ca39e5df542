#include "interop/hf_experts.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/join.h"
#include "interop/hf_classes.h"
#include "spec/model_tensors.h"

namespace gptrain {
namespace {

constexpr std::string_view layers_name = "model.layers.";
constexpr std::string_view fused_block = "mlp.";
constexpr std::string_view fused_name = "experts.gate_up_proj";

/// The names in a layer.
struct ExpertNames {
    std::string_view block = "mlp.";  ///< the next are relative to it
    std::string_view fc = "up_proj", gate = "gate_proj", proj = "down_proj";  ///< of an expert
    std::string_view router = "gate";
    std::string_view shared = {}, shared_router = {}, balance = {};
};

ExpertNames names_of_experts(HfClass hf_class) {
    switch (hf_class) {
        case HfClass::mixtral:
            return {.block = "block_sparse_moe.", .fc = "w3", .gate = "w1", .proj = "w2"};
        case HfClass::qwen2_moe:
            return {.shared = "shared_expert", .shared_router = "shared_expert_gate"};
        case HfClass::glm4_moe:
            return {.shared = "shared_experts", .balance = "gate.e_score_correction_bias"};
        case HfClass::gpt_oss: return {.router = "router"};
        default: return {};
    }
}

std::string in_layer(std::int64_t layer, const auto&... name) {
    return text(layers_name, layer, ".", name...);
}

/// Lists the tensors of a layer.
class ExpertTensors {
public:
    ExpertTensors(const ModelShape& model, HfClass hf_class, std::int64_t layer, bool fused)
        : model_(model),
          experts_(*model.experts),
          names_(names_of_experts(hf_class)),
          pairs_(hf_class == HfClass::gpt_oss),
          theirs_(in_layer(layer, fused ? fused_block : names_.block)),
          ours_(BlockId{layer}.name + ".") {}

    std::vector<ForeignTensor> list(bool fused) {
        router();
        if (pairs_)
            paired_experts();
        else
            fused ? fused_experts() : experts();
        if (experts_.shared) shared();
        return std::move(tensors_);
    }

private:
    ForeignTensor& add(std::string name, const Shape& shape, std::vector<TensorPart> parts) {
        tensors_.push_back({theirs_ + std::move(name), shape, std::move(parts)});
        return tensors_.back();
    }
    TensorPart of_expert(std::string_view name, std::int64_t expert, StackRows rows = {}) const {
        return {text(ours_, "experts.", name), expert, rows};
    }

    /// transformers keeps what sigmoid scores depend on in fp32.
    void router() {
        const bool f32 = experts_.router.score == RouterScore::sigmoid;
        const std::string theirs(names_.router);
        add(theirs + ".weight", {experts_.count, model_.hidden}, {{ours_ + "router.weight"}})
            .always_f32 = f32;
        if (experts_.router.logit_bias)
            add(theirs + ".bias", {experts_.count}, {{ours_ + "router.bias"}});
        if (names_.balance.empty()) return;
        std::vector<TensorPart> balance;
        if (experts_.balance.bias_rate) balance.push_back({ours_ + "router.balance"});
        add(std::string(names_.balance), {experts_.count}, std::move(balance)).always_f32 = f32;
    }
    void experts() {
        const std::int64_t width = experts_.ffn_hidden_size;
        for (std::int64_t e = 0; e < experts_.count; ++e) {
            const auto name = [&](std::string_view matrix) {
                return text("experts.", e, ".", matrix, ".weight");
            };
            add(name(names_.fc), {width, model_.hidden}, {of_expert("fc.weight", e)});
            add(name(names_.gate), {width, model_.hidden}, {of_expert("gate.weight", e)});
            add(name(names_.proj), {model_.hidden, width}, {of_expert("proj.weight", e)});
        }
    }
    /// Of each expert, the rows of the gate come first.
    void fused_experts() {
        const std::int64_t count = experts_.count;
        const std::int64_t width = experts_.ffn_hidden_size;
        std::vector<TensorPart> inner;
        std::vector<TensorPart> outer;
        for (std::int64_t e = 0; e < count; ++e) {
            const std::int64_t first = 2 * width * e;
            inner.push_back(of_expert("gate.weight", e, {.first = first}));
            inner.push_back(of_expert("fc.weight", e, {.first = first + width}));
            outer.push_back(of_expert("proj.weight", e, {.first = model_.hidden * e}));
        }
        add(std::string(fused_name), {count, 2 * width, model_.hidden}, std::move(inner));
        add("experts.down_proj", {count, model_.hidden, width}, std::move(outer));
    }
    /// gpt-oss: matrices as [in, out]; the outputs of the gate and of fc take turns.
    void paired_experts() {
        const std::int64_t count = experts_.count;
        const std::int64_t width = experts_.ffn_hidden_size;
        const auto add_both = [&](std::string_view kind, std::string_view theirs,
                                  const Shape& inner_shape, const Shape& outer_shape) {
            std::vector<TensorPart> inner;
            std::vector<TensorPart> outer;
            for (std::int64_t e = 0; e < count; ++e) {
                const StackRows gate = {.first = 2 * width * e, .block = 1, .stride = 2};
                StackRows fc = gate;
                ++fc.first;
                inner.push_back(of_expert(text("gate.", kind), e, gate));
                inner.push_back(of_expert(text("fc.", kind), e, fc));
                outer.push_back(of_expert(text("proj.", kind), e, {.first = model_.hidden * e}));
            }
            const bool matrices = inner_shape.rank() == 3;
            add(text("experts.gate_up_proj", theirs), inner_shape, std::move(inner)).transposed =
                matrices;
            add(text("experts.down_proj", theirs), outer_shape, std::move(outer)).transposed =
                matrices;
        };
        add_both("weight", "", {count, model_.hidden, 2 * width}, {count, width, model_.hidden});
        add_both("bias", "_bias", {count, 2 * width}, {count, model_.hidden});
    }
    void shared() {
        const std::int64_t width = experts_.shared->ffn_hidden_size;
        const auto matrix = [&](std::string_view theirs, const Shape& shape,
                                std::string_view ours) {
            add(text(names_.shared, ".", theirs, ".weight"), shape,
                {{text(ours_, "shared.", ours, ".weight")}});
        };
        matrix("up_proj", {width, model_.hidden}, "fc");
        matrix("gate_proj", {width, model_.hidden}, "gate");
        matrix("down_proj", {model_.hidden, width}, "proj");
        if (!experts_.shared->gate) return;
        add(text(names_.shared_router, ".weight"), {1, model_.hidden},
            {{ours_ + "shared.router.weight"}});
    }

    const ModelShape& model_;
    const ExpertsSpec& experts_;
    ExpertNames names_;
    bool pairs_;
    std::string theirs_;
    std::string ours_;
    std::vector<ForeignTensor> tensors_;
};

/// The numbers of the experts with tensors called PREFIX.NUMBER.
std::set<std::int64_t> experts_in(const std::vector<std::string_view>& names,
                                  std::string_view prefix) {
    std::set<std::int64_t> experts;
    for (auto at = std::lower_bound(names.begin(), names.end(), prefix);
         at != names.end() && at->starts_with(prefix); ++at) {
        const std::string_view rest = at->substr(prefix.size());
        std::int64_t expert = 0;
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), expert);
        if (error == std::errc() && end != rest.data() + rest.size() && *end == '.')
            experts.insert(expert);
    }
    return experts;
}

/// At most eight of them.
std::string some_of(const std::vector<std::int64_t>& numbers) {
    constexpr std::size_t most = 8;
    const std::vector<std::int64_t> first(
        numbers.begin(),
        numbers.begin() + static_cast<std::ptrdiff_t>(std::min(most, numbers.size())));
    return joined(first) + (numbers.size() > most ? ", ..." : "");
}

}  // namespace

std::string fused_experts_name(std::int64_t layer) {
    return in_layer(layer, fused_block, fused_name);
}

std::vector<ForeignTensor> hf_expert_tensors(const ModelShape& model, HfClass hf_class,
                                             std::int64_t layer, bool fused) {
    return ExpertTensors(model, hf_class, layer, fused).list(fused);
}

void check_hf_experts(const ModelShape& model, HfClass hf_class,
                      const std::vector<std::string_view>& names, const std::string& source) {
    if (hf_class == HfClass::gpt_oss) return;  // all of a layer's are one tensor
    const std::int64_t count = model.experts->count;
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
        if (!model.has_experts(layer)) continue;
        const std::string block = in_layer(layer, names_of_experts(hf_class).block, "experts.");
        const std::set<std::int64_t> found = experts_in(names, block);
        const std::string fused = fused_experts_name(layer);
        if (std::binary_search(names.begin(), names.end(), fused)) {
            if (found.empty()) continue;
            fail(ExitCode::bad_input, source, ": has ", fused, " and also ", block, *found.begin(),
                 "; remove one of the two forms");
        }
        std::vector<std::int64_t> missing;
        for (std::int64_t e = 0; e < count; ++e)
            if (!found.contains(e)) missing.push_back(e);
        const std::vector<std::int64_t> surplus(found.lower_bound(count), found.end());
        if (missing.empty() && surplus.empty()) continue;
        fail(ExitCode::bad_input, source, ": ", block, "* ", missing.empty() ? "has" : "lacks",
             " the experts ", some_of(missing.empty() ? surplus : missing),
             missing.empty() ? " too much" : "", "; config.json has ", family_of(hf_class).experts,
             " ", count);
    }
}

}  // namespace gptrain
