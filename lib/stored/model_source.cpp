#include "stored/model_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/float_values.h"
#include "checkpoint/manifest.h"
#include "interop/hf_classes.h"
#include "spec/make_plan.h"
#include "stored/find_checkpoint.h"
#include "stored/saved_run.h"

namespace gptrain {
namespace {

// Read at a time from a Hugging Face model folder.
constexpr std::int64_t piece_elements = std::int64_t{1} << 22;

void refuse_without_config(const std::filesystem::path& folder) {
    std::error_code ignored;
    if (is_peft_folder(folder))
        fail(ExitCode::usage, folder.string(),
             ": is an adapter of PEFT, but a whole model is needed here; merge it into its model "
             "with gptrain export --merge, or give the model");
    for (const std::string_view name : {hf_weights_name, hf_index_name}) {
        if (!std::filesystem::exists(folder / name, ignored)) continue;
        fail(ExitCode::usage, folder.string(), ": has ", name, ", but no ", hf_config_name,
             ", which describes the model; add it");
    }
}

}  // namespace

ModelSource::ModelSource(const std::filesystem::path& path, const MpiSession& ranks)
    : ranks_(&ranks) {
    bool is_hf = false;
    std::filesystem::path folder = path;
    ranks.run_on_all([&] {
        is_hf = is_hf_folder(path) && !std::filesystem::exists(path / "manifest.json");
        if (is_hf) hf_ = std::make_unique<const HfFolder>(path);
        if (is_hf && ranks.rank() == 0) warn_of_unused_tensors(*hf_);
        if (!is_hf) refuse_without_config(path);
        if (path.filename() != model_index_name) return;
        require_path(path, ExitCode::usage, "file");
        folder = folder_of(path);
    });
    if (!is_hf) checkpoint_ = open_checkpoint(folder, ranks);
}

ModelSource::ModelSource(const std::filesystem::path& path, std::unique_ptr<ModelSource> adapted,
                         const MpiSession& ranks)
    : ranks_(&ranks), adapted_(std::move(adapted)) {
    ranks.run_on_all([&] {
        peft_ = open_peft(path, *adapted_);
        if (ranks.rank() == 0) warn_of_other_base(path, peft_->config(), adapted_->folder());
    });
}

std::unique_ptr<const PeftFolder> open_peft(const std::filesystem::path& path,
                                            const ModelSource& adapted) {
    const ModelShape model = adapted.model();
    if (model.lora || model.prompt)
        fail(ExitCode::usage, adapted.folder().string(), ": is an adapter itself, which ",
             path.string(), " cannot adapt; give the whole model");
    const HfClass hf_class =
        adapted.hf() != nullptr ? adapted.hf()->config().hf_class : hf_class_of(model);
    return std::make_unique<const PeftFolder>(path, model, hf_class);
}

ModelShape ModelSource::model() const {
    RunSpec own = spec();
    own.parallel = {};
    own.training.global_batch_size.reset();
    own.training.rampup = {};
    return make_plan(own, {.world_size = 1, .cuda = false, .dry_run = true}).model;
}

const std::filesystem::path& ModelSource::folder() const {
    return hf_ ? hf_->path() : peft_ ? peft_->path() : checkpoint_->folder();
}

RunSpec ModelSource::spec() const {
    if (hf_) return hf_->spec();
    if (peft_) {
        RunSpec own = adapted_->spec();
        own.adapter = peft_->adapter();
        own.init_from = adapted_->folder();
        own.training.frozen.clear();
        return own;
    }
    const std::string source = (folder() / "manifest.json").string() + ": state.spec";
    return parse_run_spec(saved_run(checkpoint_->meta()).spec_yaml, source);
}

const RestartPoint& ModelSource::checkpoint() const {
    if (!checkpoint_) {
        fail(ExitCode::usage, folder().string(), ": is a Hugging Face ",
             hf_ ? "model folder; gptrain import makes a checkpoint of it" : "adapter");
    }
    return *checkpoint_;
}

RestartPoint& ModelSource::checkpoint() {
    std::as_const(*this).checkpoint();
    return *checkpoint_;
}

std::optional<std::string> ModelSource::whole_file(const std::string& name,
                                                   std::int64_t limit) const {
    if (checkpoint_) return checkpoint_->whole_file(name, limit);
    std::string message;  // a leading mark distinguishes an empty file from none
    ranks_->run_on_first([&] {
        std::error_code ignored;
        const std::filesystem::path path = folder() / name;
        if (std::filesystem::exists(path, ignored)) message = text("+", read_file(path, limit));
    });
    message = ranks_->broadcast(message);
    if (message.empty() && peft_) return adapted_->whole_file(name, limit);
    if (message.empty()) return std::nullopt;
    return message.substr(1);
}

void read_weights(const WeightReader& weights, Backend& backend, const NamedState& state) {
    const Shard& shard = state.shard;
    const Tensor values = state.values.view({shard.elements()});
    std::vector<float> buffer;
    for (std::int64_t at = 0; at < shard.elements(); at += piece_elements) {
        Shard part = shard;
        part.flat_begin += at;
        part.flat_end = std::min(part.flat_begin + piece_elements, shard.flat_end);
        buffer.resize(static_cast<std::size_t>(part.elements()));
        weights(part, buffer);
        backend.upload(values.slice(0, at, part.elements()), from_floats(buffer, values.dtype()));
    }
}

}  // namespace gptrain
