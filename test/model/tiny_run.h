// A model small enough to train in a test, with made-up data.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/measure.h"

namespace gptrain::test {

/// Values of named tensors, such as the weights or the gradients of a model.
using NamedValues = std::map<std::string, std::vector<float>>;

/// A spec of a small GPT-2-like model. Tests change the keys that they test.
RunSpec tiny_spec();
/// The same with rotary positions, RMSNorm, SwiGLU, no biases, grouped-query attention and an
/// untied head.
RunSpec tiny_llama_spec();
/// The same with biases of q, k and v only, norms of q and k, stretched rotations and a window.
RunSpec tiny_qwen_spec();
/// GPT-2's shape with stretched rotations, erf-GELU, a window, and biases except of q, k and v.
RunSpec tiny_neox_spec();

/// The Llama with norms behind the halves, and of all heads of q and k.
RunSpec tiny_olmo_spec();
/// The Llama with norms on both sides of the halves, GeGLU and a scale of the embedding.
RunSpec tiny_gemma_spec();
/// GPT-2's shape with parallel halves, squared relu, a norm of the embeddings, a bias of the head
/// and none behind attention.
RunSpec tiny_falcon_spec();
/// The same with one norm for both halves, relu, and biases of norms only.
RunSpec tiny_cohere_spec();

/// The Llama with experts in all layers.
RunSpec tiny_experts_spec();
/// The same with a dense first layer, a shared expert behind a gate, and a sigmoid router with
/// groups.
RunSpec tiny_shared_experts_spec();

/// The same in FP8 with scales for blocks, in sizes that have whole blocks on up to two ranks of
/// tp.
RunSpec in_blocks(RunSpec spec);
/// The same with heads of 128, whose outputs attention writes in FP8 as well.
RunSpec with_wide_heads(RunSpec spec);

/// Trains LoRA instead, of all linear layers or of some that share their input with others; with
/// experts, of attention.
RunSpec with_lora(RunSpec spec, bool all_layers = true);

/// Trains virtual tokens instead: as they are, or with an encoder.
RunSpec with_virtual_tokens(RunSpec spec, AdapterKind kind, std::int64_t count = 5);

/// The backend that this executable tests.
std::unique_ptr<Backend> tested_backend();

/// Changes settings that no key of the spec sets.
using PlanChange = std::function<void(RunPlan& plan)>;

/// An engine with everything that it needs.
class TinyRun {
public:
    /// One rank, on the tested backend.
    explicit TinyRun(const RunSpec& spec);
    TinyRun(const RunSpec& spec, std::unique_ptr<Backend> backend);
    /// One rank of a mesh. `change` changes the plan, on all ranks alike.
    TinyRun(const RunSpec& spec, std::unique_ptr<Backend> backend, std::int64_t ranks,
            const std::function<Mesh(const RunPlan&, Backend&)>& make_mesh,
            const PlanChange& change = {});

    Engine& engine() { return *engine_; }
    Backend& backend() { return *backend_; }
    const RunPlan& plan() const { return plan_; }
    const Mesh& mesh() const { return mesh_; }
    const StepCost& cost() const { return cost_; }
    const MemoryPlan& memory_plan() const { return cost_.memory; }

    /// One step, repeated in slices if messages to experts are too short; returns its loss.
    double step(const StepBatch& batch);
    /// How many steps it has repeated.
    std::int64_t repeats() const { return repeats_; }
    NamedValues gradients();
    /// Group "weight", "exp_avg" or "exp_avg_sq".
    NamedValues state(const std::string& group);
    /// Everything that a checkpoint contains, and the model that an adapter adapts.
    void visit_state(const StateVisitor& visitor) const;
    /// Call the engine's `restore` afterwards.
    void set_state(const std::string& group, const NamedValues& values);
    void set_weights(const NamedValues& weights);

private:
    NamedValues collect(const std::string& group,
                        const std::function<void(const StateVisitor&)>& visit);

    std::unique_ptr<Backend> backend_;
    RunPlan plan_;
    Mesh mesh_;
    StepCost cost_;
    std::unique_ptr<Engine> engine_;
    std::int64_t repeats_ = 0;
};

/// The shard's elements in fp32, whatever dtype they have.
std::vector<float> host_values(Backend& backend, const NamedState& state);

/// 2-norm of the difference.
double distance(const std::vector<float>& a, const std::vector<float>& b);
double norm(const std::vector<float>& a);

/// A data rank's batch of random tokens, a function of (seed, step): the same sequences, however
/// they are split into microbatches and among data ranks. weight_sum is that of all data ranks. A
/// few tokens have weight 0. Virtual tokens are before each sequence, and once more in the middle
/// of some. With data.reset_at_eod a sequence has two documents.
StepBatch random_batch(const RunPlan& plan, std::int64_t step, std::uint64_t seed = 1,
                       std::int64_t data_rank = 0);

}  // namespace gptrain::test
