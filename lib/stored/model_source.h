// A stored model: a checkpoint or a Hugging Face model folder. The checkpoint of an adapter, and an
// adapter of PEFT, have only the adapter; the model that it adapts is another source.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "checkpoint/restart_point.h"
#include "comm/mpi_session.h"
#include "interop/hf_folder.h"
#include "interop/peft_folder.h"
#include "spec/run_spec.h"

namespace gptrain {

class ModelSource {
public:
    /// `path`: a checkpoint, its model.h5, or an output directory (its newest valid checkpoint), or
    /// a Hugging Face model folder. All ranks construct it together. Error (usage) if there is no
    /// model; (bad_input) if the Hugging Face folder is faulty or no run spec expresses its model.
    /// The session must outlive it. An adapter's model is not opened (open_model.h).
    ModelSource(const std::filesystem::path& path, const MpiSession& ranks);
    /// The adapter of PEFT in `path`, and the model that it adapts. All ranks construct it
    /// together. Errors: those of PeftFolder, and (usage) if no class of transformers has the
    /// model, or it is an adapter itself. Warns if the adapter names another model as its base.
    ModelSource(const std::filesystem::path& path, std::unique_ptr<ModelSource> adapted,
                const MpiSession& ranks);

    const std::filesystem::path& folder() const;
    /// The run spec of the model, as it was trained.
    RunSpec spec() const;
    /// Its shape.
    ModelShape model() const;
    /// The model that an adapter adapts; null if this is not an adapter, or it is not opened.
    ModelSource* adapted() const { return adapted_.get(); }
    void set_adapted(std::unique_ptr<ModelSource> adapted) { adapted_ = std::move(adapted); }
    /// Null if it is another kind.
    const HfFolder* hf() const { return hf_.get(); }
    const PeftFolder* peft() const { return peft_.get(); }
    bool is_checkpoint() const { return checkpoint_.has_value(); }
    /// This, or the model that an adapter of PEFT adapts: whose tokenizer and defaults it has.
    const ModelSource& whole() const { return peft_ ? *adapted_ : *this; }
    /// Error (usage) if the model is a folder of Hugging Face.
    RestartPoint& checkpoint();
    const RestartPoint& checkpoint() const;

    /// The contents of a file next to the weights, as rank 0 reads it; nothing if there is none. If
    /// an adapter of PEFT lacks it, that of its model.
    /// All ranks call it together, before they load weights. Error (bad_input): it is damaged, or
    /// larger than `limit` bytes.
    std::optional<std::string> whole_file(const std::string& name, std::int64_t limit) const;

private:
    const MpiSession* ranks_;
    std::optional<RestartPoint> checkpoint_;
    std::unique_ptr<const HfFolder> hf_;
    std::unique_ptr<const PeftFolder> peft_;
    std::unique_ptr<ModelSource> adapted_;
};

/// The adapter in a folder of PEFT for this model. Errors as for ModelSource.
std::unique_ptr<const PeftFolder> open_peft(const std::filesystem::path& path,
                                            const ModelSource& adapted);

/// state.values = the elements of its shard, rounded to its dtype, a few MiB at a time.
void read_weights(const WeightReader& weights, Backend& backend, const NamedState& state);

}  // namespace gptrain
