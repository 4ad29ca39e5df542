// A trained model without its optimizer, on any mesh, for `generate` and `eval`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/rank_model.h"
#include "infer/run_tokenizer.h"
#include "interop/foreign_tensors.h"
#include "stored/model_source.h"
#include "watch/observers.h"

namespace gptrain {

/// The environment of an inference, all of which must outlive it. All ranks call everything
/// together.
struct InferenceRun {
    ModelSource& source;
    const RunTokenizer& tokenizer;
    const RunPlan& plan;  ///< of inference_spec
    Backend& backend;
    const Mesh& mesh;
    const MpiSession& ranks;
    Observers& observers;
};

/// The spec of the run that wrote a checkpoint, but on one rank. `settings` may change the device,
/// the precision and the mesh ("device=cpu", "precision.frozen=int8", "parallel.tensor=2");
/// anything else is an Error (usage). `meta`: of the checkpoint in `folder`.
RunSpec inference_spec(const std::filesystem::path& folder, const CheckpointMeta& meta,
                       const std::vector<std::string>& settings);
/// The same of a model, which may also be a Hugging Face model folder.
RunSpec inference_spec(const ModelSource& source, const std::vector<std::string>& settings);

/// Error (usage) that names `source` if the model is not causal: with objective mlm a token's
/// prediction needs those that follow it, so it cannot do `work` ("generate text").
void require_causal(const Objective& objective, const std::filesystem::path& source,
                    std::string_view work);

/// The spec of a run for inference, without its mesh and the settings that only training needs.
RunSpec without_training(RunSpec spec);

/// One rank's share of the weights, and the chunks that compute with them.
class InferenceModel {
public:
    /// With a memory plan it allocates exactly that. The references must outlive the model.
    InferenceModel(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                   const std::optional<MemoryPlan>& memory);

    /// Loads the weights, rounded to the compute dtype.
    void load(ModelSource& source, const MpiSession& ranks);
    /// The same from other sources, on a backend that computes in host memory.
    void load(const WeightReader& weights);

    const ModelContext& context() const { return context_; }
    const Parameters& parameters() const { return parameters_; }
    const std::vector<GptChunk>& chunks() const { return chunks_; }
    Memory& memory() { return memory_; }

private:
    /// All of them, with the memory into which their fp32 values are read.
    std::vector<StreamedState> weights();

    Memory memory_;
    ModelContext context_;
    Parameters parameters_;
    std::vector<GptChunk> chunks_;
    /// fp32, size of the largest matrix or parameter; empty if all weights are in fp32.
    Tensor staging_;
};

/// Sets batch sizes for evaluating `sequences` sequences: at most as many, with enough microbatches
/// of at most micro_batch_size sequences to fill the pipeline.
void set_evaluation_batches(RunPlan& plan, std::int64_t sequences);

/// The sizes that an evaluation needs on this rank of `mesh` while the microbatches of a batch
/// pass.
StageSizes evaluation_sizes(const RunPlan& plan, const Mesh& mesh);

/// Advice for a model that does not fit.
std::string more_ranks_advice();

/// The connections of a mesh that answers: those of the model, and a channel that brings logits
/// from the stage with the head to the first one.
MeshConnections answer_connections(const RunPlan& plan);

/// The mesh of a rank at `place`, for the meter: its messages transfer nothing.
Mesh meter_mesh(const RunPlan& plan, const MeshPlace& place);

}  // namespace gptrain
