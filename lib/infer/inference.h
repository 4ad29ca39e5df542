// A trained model without its optimizer, on any mesh: what `generate` and `eval` compute with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/restart_point.h"
#include "engine/rank_model.h"
#include "infer/run_tokenizer.h"
#include "watch/observers.h"

namespace gptrain {

/// What an inference runs on; all of it outlives it. All ranks call everything together.
struct InferenceRun {
    RestartPoint& checkpoint;
    const RunSpec& spec;  ///< inference_spec
    const RunTokenizer& tokenizer;
    const RunPlan& plan;
    Backend& backend;
    const Mesh& mesh;
    const MpiSession& ranks;
    Observers& observers;
};

/// The spec of the run that wrote a checkpoint, on one rank or what `settings` ask for, which may
/// choose the device and the mesh ("device=cpu", "parallel.tensor=2"); else Error (usage).
/// The meta is that of the checkpoint in `folder`.
RunSpec inference_spec(const std::filesystem::path& folder, const CheckpointMeta& meta,
                       const std::vector<std::string>& settings);

/// The weights of a rank's part of the model, and the chunks that compute with them.
class InferenceModel {
public:
    /// With a memory plan everything takes exactly that. The references outlive the model.
    InferenceModel(Backend& backend, const Mesh& mesh, const RunPlan& plan,
                   const std::optional<MemoryPlan>& memory);

    /// Fills the weights, rounded to the compute dtype.
    void load(RestartPoint& checkpoint);

    const ModelContext& context() const { return context_; }
    const Parameters& parameters() const { return parameters_; }
    const std::vector<GptChunk>& chunks() const { return chunks_; }
    Memory& memory() { return memory_; }

private:
    /// Where the fp32 values of a parameter are read to.
    Tensor landing(const Parameter& parameter) const;

    Memory memory_;
    ModelContext context_;
    Parameters parameters_;
    std::vector<GptChunk> chunks_;
    Tensor staging_;  ///< fp32, the largest parameter; empty where the compute dtype is fp32
};

/// What is said where a model does not fit.
std::string more_ranks_would_fit();

/// The mesh of a rank at a place whose messages move nothing, for the meter.
Mesh meter_mesh(const RunPlan& plan, const MeshPlace& place);

}  // namespace gptrain
