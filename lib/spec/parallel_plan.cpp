#include "spec/parallel_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "base/checked.h"
#include "spec/layer_split.h"
#include "spec/model_cost.h"
#include "spec/plan_checks.h"

namespace gptrain {
namespace {

/// Features that a layer of this kind keeps of each token inside its linear layers, on the side
/// that is not the residual stream's.
double saved_inside(const RunPlan& plan, const LayerKind& kind) {
    // Ranks that divide the experts have rows of the stream's tokens.
    const auto slices = plan.mesh.expert > 1 ? static_cast<double>(plan.mesh.tensor) : 1.0;
    double saved = 0;
    for (const TensorGroup& group : layer_tensors(plan.local, {kind.first})) {
        // Selective computes the activation again, which the last layer of an mlp reads.
        const bool rebuilt = plan.recompute == Recompute::selective &&
                             group.name.ends_with(".proj.weight") &&
                             !group.name.ends_with("attn.proj.weight");
        if (!group.linear || rebuilt) continue;
        for (const ModelTensor& tensor : group.tensors) {
            const bool to_stream = tensor.split == TensorSplit::columns;
            const double experts =
                tensor.experts > 0 ? tensor.active * static_cast<double>(tensor.experts) / slices
                                   : tensor.active;
            saved += experts * static_cast<double>(to_stream ? tensor.columns : tensor.rows);
        }
    }
    return saved;
}

/// Of the mean layer.
double saved_inside(const RunPlan& plan) {
    double saved = 0;
    for (const LayerKind& kind : layer_kinds(plan.local))
        saved += kind.share * saved_inside(plan, kind);
    return saved;
}

/// Bytes that a layer keeps of a microbatch on one rank, without the few numbers per token.
double saved_bytes(const RunPlan& plan) {
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    const double stream = real(plan.stream_length() * plan.local.hidden);
    double elements = stream;
    if (plan.recompute != Recompute::full)
        elements += stream + real(plan.local_length()) * saved_inside(plan);
    if (plan.recompute == Recompute::none) elements += 2 * stream;
    return elements * real(plan.micro_batch_size * size_of(plan.compute));
}

/// Bytes of activations that the first stage keeps and the last one does not.
double spare_bytes(const RunPlan& plan) {
    const std::int64_t p = plan.mesh.pipeline;
    const std::int64_t v = plan.virtual_stages;
    const std::int64_t microbatches = plan.microbatches(plan.batch.global_batch_size);
    const auto kept = [&](std::int64_t stage, std::int64_t slots) {
        std::int64_t layers = 0;  // of the largest chunk
        for (std::int64_t chunk = stage; chunk < v * p; chunk += p)
            layers = std::max(layers, plan.chunk_layers[static_cast<std::size_t>(chunk)]);
        return static_cast<double>(std::min(slots, v * microbatches) * layers);
    };
    const std::int64_t last = (v - 1) * p + 1;
    const std::int64_t first = last + (v == 1 ? 1 : 2) * (p - 1);
    return (kept(0, first) - kept(p - 1, last)) * saved_bytes(plan);
}

void check_virtual_stages(const RunPlan& plan) {
    const bool interleaved = plan.schedule == ScheduleKind::interleaved_one_f_one_b;
    const bool zero_bubble = plan.schedule == ScheduleKind::zero_bubble;
    const std::int64_t wanted = plan.virtual_stages;
    require(wanted == 1 || plan.mesh.pipeline > 1, "parallel.virtual_stages ", wanted,
            " needs parallel.pipeline of at least 2; set it to 1");
    require(!interleaved || wanted > 1,
            "parallel.schedule interleaved_1f1b needs parallel.virtual_stages of at least 2 and "
            "parallel.pipeline of at least 2; set them or the schedule to 1f1b");
    require(!zero_bubble || wanted <= 2,
            "parallel.schedule zero_bubble has parallel.virtual_stages "
            "1 or 2, not ",
            wanted);
    require(interleaved || zero_bubble || wanted == 1, "parallel.virtual_stages ", wanted,
            " is invalid with parallel.schedule ", name_of(plan.schedule),
            "; set the schedule to interleaved_1f1b");
}

void check_sequence(const RunPlan& plan) {
    const std::int64_t context = plan.mesh.context;
    const std::int64_t tensor = plan.mesh.tensor;
    const bool ring = plan.context_method == ContextMethod::ring;
    const std::int64_t slices = context == 1 ? 1 : ring ? 2 * context : context;
    require_multiple("training.seq_length", plan.seq_length,
                     ring ? "2 x parallel.context" : "parallel.context", slices);
    if (context > 1 && !ring) {
        const auto shared = [&](std::string_view what, std::string_view key, std::int64_t count) {
            require(count % context == 0,
                    "parallel.context_method all_to_all gives each rank a "
                    "share of the ",
                    what, ": ", key, " / parallel.tensor = ", count,
                    " is not a multiple of parallel.context ", context,
                    "; change one of them or the method to ring");
        };
        shared("heads", "model.num_attention_heads", plan.local.heads);
        shared("query groups", "model.num_query_groups", plan.local.groups);
    }
    if (plan.sequence_parallel) {
        require_multiple("training.seq_length / parallel.context", plan.local_length(),
                         "parallel.tensor with sequence_parallel", tensor);
    }
}

/// Ranks that divide the experts have theirs whole.
void split_experts(ExpertsSpec& experts, const MeshShape& mesh) {
    const auto split = [&](std::string_view key, std::int64_t& width) {
        require_multiple(key, width, "parallel.tensor", mesh.tensor);
        width /= mesh.tensor;
    };
    if (mesh.expert == 1) split("model.experts.ffn_hidden_size", experts.ffn_hidden_size);
    if (experts.shared)
        split("model.experts.shared.ffn_hidden_size", experts.shared->ffn_hidden_size);
}

}  // namespace

ModelShape local_shape(const ModelShape& model, const MeshShape& mesh) {
    const std::int64_t tensor = mesh.tensor;
    ModelShape local = model;
    if (tensor == 1) return local;
    constexpr std::string_view key = "parallel.tensor";
    require_multiple("model.num_attention_heads", model.heads, key, tensor);
    if (model.expert_layers(model.layers) < model.layers)
        require_multiple("model.ffn_hidden_size", model.ffn, key, tensor);
    require(model.groups % tensor == 0 || tensor % model.groups == 0, "model.num_query_groups ",
            model.groups, " and parallel.tensor ", tensor,
            ": one must be a multiple of the other; change one of them");
    local.heads = model.heads / tensor;
    local.groups = std::max<std::int64_t>(model.groups / tensor, 1);
    local.ffn = model.ffn / tensor;
    if (local.experts) split_experts(*local.experts, mesh);
    local.vocab = div_ceil(model.vocab, tensor);
    require((tensor - 1) * local.vocab < model.vocab, "parallel.tensor ", tensor,
            " leaves a rank without rows of model.vocab_size ", model.vocab, "; lower it");
    return local;
}

std::vector<std::int64_t> split_layers(const RunSpec& spec, const ModelShape& model,
                                       std::int64_t chunks) {
    const std::string product = text("parallel.pipeline x parallel.virtual_stages = ", chunks);
    if (spec.parallel.layers) {
        const std::vector<std::int64_t>& layers = *spec.parallel.layers;
        require(std::cmp_equal(layers.size(), chunks), "parallel.layers has ", layers.size(),
                " entries, but ", product, "; give one entry for each or set it to auto");
        const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
        require(sum == model.layers, "parallel.layers sums to ", sum, ", but model.num_layers is ",
                model.layers, "; make them equal");
        return layers;
    }
    require(model.layers >= chunks, "model.num_layers ", model.layers, " is below ", product,
            "; raise it, or lower parallel.pipeline or parallel.virtual_stages");
    if (layer_kinds(model).size() > 1)
        return split_by_work(model, spec.training.seq_length, chunks);
    // Give each remaining layer to the first chunk with the least work.
    std::vector<std::int64_t> layers(static_cast<std::size_t>(chunks), 1);
    using Work = std::pair<double, std::size_t>;
    std::priority_queue<Work, std::vector<Work>, std::greater<>> work;
    for (std::size_t chunk = 0; chunk + 1 < layers.size(); ++chunk)
        work.push({1, chunk});
    work.push({1 + head_cost(model, spec.training.seq_length), layers.size() - 1});
    for (std::int64_t layer = chunks; layer < model.layers; ++layer) {
        const auto [done, chunk] = work.top();
        work.pop();
        work.push({done + 1, chunk});
        layers[chunk] += 1;
    }
    return layers;
}

std::int64_t tensor_pieces(const RunPlan& plan) {
    const std::int64_t most = plan.micro_batch_size * plan.local_length() >= 8192 ? 4 : 2;
    constexpr std::string_view key = "parallel.overlap_tensor: on";
    require(plan.sequence_parallel, key,
            " needs parallel.tensor above 1 and parallel.sequence_parallel: true; set them, or "
            "overlap_tensor to off");
    const bool one = plan.micro_batch_size == 1;
    const std::int64_t rows = one ? plan.stream_length() : plan.micro_batch_size;
    const std::int64_t pieces = std::gcd(rows, most);
    require(pieces > 1, key, " cuts ",
            one ? "a rank's rows of a sequence, training.seq_length / (parallel.context x "
                  "parallel.tensor)"
                : "training.micro_batch_size",
            " = ", rows, ", into halves; make it even, or set overlap_tensor to off");
    return pieces;
}

void take_pieces_by_rank(RunPlan& plan) {
    const std::int64_t pieces = std::gcd(plan.mesh.tensor, plan.tensor_pieces);
    if (pieces == 1 || plan.micro_batch_size != 1) return;
    plan.tensor_pieces = pieces;
    plan.pieces_by_rank = true;
}

std::int64_t deferred_heads(const RunPlan& plan) {
    const bool ramps = plan.schedule == ScheduleKind::one_f_one_b ||
                       plan.schedule == ScheduleKind::interleaved_one_f_one_b;
    // The window of the head's gradient is for one microbatch.
    if (!ramps || plan.mesh.pipeline == 1 || plan.shards_gradients()) return 0;
    if (plan.offload.activations != OffloadedActivations::off) return 0;
    if (!plan.parameters.trains(head_matrix(plan.model))) return 0;
    const ModelShape& model = plan.local;
    const std::int64_t operands =
        plan.stream_length() * model.hidden + plan.local_length() * model.vocab;
    const double bytes = static_cast<double>(operands) *
                         static_cast<double>(plan.micro_batch_size * size_of(plan.compute));
    // Backward is two thirds of a layer's FLOPs, the weight gradient a third of the head's.
    const auto layers = static_cast<double>(plan.chunk_layers.front());
    const double backward = 2 * layers / head_cost(plan.model, plan.seq_length);
    const double travel = static_cast<double>(plan.mesh.pipeline - 1) * backward;
    const double most = std::min(spare_bytes(plan) / bytes, 0.75 * travel);
    const std::int64_t microbatches = plan.microbatches(plan.batch.global_batch_size);
    return static_cast<std::int64_t>(std::clamp(most, 0.0, static_cast<double>(microbatches)));
}

void check_parallel(const RunPlan& plan) {
    check_virtual_stages(plan);
    check_sequence(plan);
}

}  // namespace gptrain
