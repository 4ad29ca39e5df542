// The weights of another model with which a new run starts, or which its adapter adapts (the spec's
// init_from).
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "backend/backend.h"
#include "checkpoint/state_source.h"
#include "comm/mpi_session.h"
#include "stored/model_source.h"

namespace gptrain {

/// Error (usage) that names `source`, the first key or tensor that differs and both values, unless
/// weights of the model `theirs` are weights of `ours`. Whatever changes no weight's meaning
/// (rope_theta, rope_scaling, windows, norm_eps, the positions with rope, dropout, init_std) may
/// differ.
void check_same_weights(const ModelShape& theirs, const ModelShape& ours,
                        const std::string& source);

/// All ranks construct it and call it together.
class InitialWeights {
public:
    /// `from`: a checkpoint, its model.h5, an output directory, a Hugging Face model folder, or for
    /// a run with an adapter one of PEFT, whose base model counts then (peft_base).
    /// Error (usage) if the model differs (check_same_weights), except that experts can start as
    /// copies of an mlp (upcycling.h), or there is none. The session must
    /// outlive it. `adapted`: an adapter belongs to the weights, so load refuses the next older
    /// checkpoint where it finds the newest one damaged.
    InitialWeights(std::filesystem::path from, const ModelShape& model, bool adapted,
                   const MpiSession& ranks);

    /// Where `from` is an adapter of PEFT, opens it, for load_adapter. Error (usage) if the adapter
    /// of `model` has another rank, factor or targets; (bad_input): those of PeftFolder.
    void open_adapter(const ModelShape& model);

    /// The folder with the tokenizer of the weights, for data.tokenizer; empty if they have none.
    std::filesystem::path tokenizer_folder() const;

    /// Identifies the model (source_weights.h).
    std::string fingerprint() const;

    /// Fills `weights`, and prints where they come from. Each expert of a model that starts with a
    /// dense one gets a copy of the mlp, with the noise of the spec, drawn by the seed; the routers
    /// stay as they are.
    void load(Backend& backend, const StateSource& weights, std::uint64_t seed);
    /// The same, one state at a time.
    void load_streamed(Backend& backend, std::span<const StreamedState> weights);

    /// Gives a LoRA adapter the values of the one that open_adapter has opened, if it has, and
    /// prints where they come from. `adapter`: the state that holds it.
    void load_adapter(Backend& backend, const StateSource& adapter);

    /// Gives virtual tokens the embeddings of tokens of the vocabulary, drawn by the seed.
    /// `adapter`: the state that holds `prompt`.
    void load_virtual_tokens(Backend& backend, const StateSource& adapter, const SoftPrompt& prompt,
                             std::uint64_t seed);

private:
    /// Checks the model of the weights.
    void check() const;
    /// Fills `weights`, which the source has.
    void load_alike(Backend& backend, const StateSource& weights);
    /// Checks the next older checkpoint, after a damaged one.
    void check_older() const;
    /// Prints where the weights come from.
    void report() const;

    std::filesystem::path from_;
    ModelShape model_;
    bool adapted_;
    const MpiSession& ranks_;
    ModelSource source_;
    std::unique_ptr<const PeftFolder> peft_;
};

}  // namespace gptrain
