#include "interop/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/checked.h"
#include "base/float_values.h"
#include "base/log.h"
#include "interop/hf_experts.h"
#include "interop/hf_read_back.h"
#include "interop/tensor_names.h"
#include "spec/make_plan.h"

namespace gptrain {
namespace {

/// A plain name inside the folder.
void check_file_name(const std::string& name, const std::string& source) {
    const bool plain = !name.empty() && name.size() <= 255 && name.front() != '.' &&
                       name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) fail(ExitCode::bad_input, source, ": 'weight_map' contains an invalid file name");
}

/// The run spec of the model, checked like one that a user wrote. It has no data.
RunSpec spec_of(const HfConfig& config, const std::string& source) {
    const ModelSpec& model = config.model;
    RunSpec spec;
    spec.name = "imported";
    spec.output_dir = absolute_path("runs/imported");
    spec.model = model;
    spec.data.eod_id = config.ids.eos;
    spec.training.seq_length = model.max_position_embeddings.value();
    spec.training.steps = 1;
    try {
        const RunSpec checked = parse_run_spec(to_yaml(spec), source);
        make_plan(checked, {.world_size = 1, .cuda = false, .dry_run = true});
        return checked;
    } catch (const Error& error) {
        // The place is one in a run spec that nobody sees.
        std::string_view message = error.what();
        message.remove_prefix(message.starts_with(source) ? source.size() : 0);
        message.remove_prefix(std::min(message.find_first_not_of(":0123456789 "), message.size()));
        fail(ExitCode::bad_input, source, ": ",
             with_hf_keys(std::string(message), config.hf_class));
    }
}

bool all_zero(std::span<const std::byte> bytes, DType dtype) {
    std::vector<float> values(bytes.size() / static_cast<std::size_t>(size_of(dtype)));
    to_floats(bytes, dtype, 0, 1, values);
    return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

/// True if both hold the same values, which are compared a few MiB at a time.
bool same_values(const StoredTensor& a, const StoredTensor& b) {
    constexpr std::int64_t piece_elements = std::int64_t{1} << 20;
    const std::int64_t elements = std::ssize(a.bytes) / size_of(a.dtype);
    if (std::ssize(b.bytes) / size_of(b.dtype) != elements) return false;
    std::vector<float> ours(static_cast<std::size_t>(std::min(piece_elements, elements)));
    std::vector<float> theirs(ours.size());
    for (std::int64_t at = 0; at < elements; at += piece_elements) {
        const auto count = static_cast<std::size_t>(std::min(piece_elements, elements - at));
        to_floats(a.bytes, a.dtype, at, 1, std::span(ours).first(count));
        to_floats(b.bytes, b.dtype, at, 1, std::span(theirs).first(count));
        if (std::memcmp(ours.data(), theirs.data(), count * sizeof(float)) != 0) return false;
    }
    return true;
}

bool follows_from_others(std::string_view name) {
    for (const std::string_view end : {"rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                       ".attention.bias", ".attention.masked_bias"})
        if (name.ends_with(end)) return true;
    return false;
}

bool is_norm_bias(const ForeignTensor& tensor) {
    if (tensor.parts.size() != 1) return false;
    const std::string& ours = tensor.parts.front().name;
    return ours.ends_with(".bias") && ours.find("ln_") != ours.npos;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    std::string out;
    for (const std::int64_t size : shape)
        out += text(out.empty() ? "" : ", ", size);
    return "[" + out + "]";
}

}  // namespace

bool is_hf_folder(const std::filesystem::path& folder) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(folder / hf_config_name, ignored);
}

std::map<std::string, std::string> parse_hf_index(std::string_view json,
                                                  const std::string& source) {
    const Json root = parse_json(json, source);
    std::map<std::string, std::string> files;
    for (const auto& [tensor, file] : JsonReader(root, source).object("weight_map").items()) {
        if (!file.is_string())
            fail(ExitCode::bad_input, source, ": 'weight_map' must contain only file names");
        check_file_name(file.get_ref<const std::string&>(), source);
        files.emplace(tensor, file.get<std::string>());
    }
    if (files.empty()) fail(ExitCode::bad_input, source, ": 'weight_map' is empty");
    return files;
}

HfFolder::HfFolder(const std::filesystem::path& folder) : folder_(folder) {
    const std::filesystem::path path = folder / hf_config_name;
    const std::string source = path.string();
    config_ = read_hf_config(parse_json(read_file(path, max_hf_file_bytes), source), source);
    spec_ = spec_of(config_, source);
    shape_ = shape_of(config_.model);
    open_files();
    settle_norm_biases(source);
    place_tensors();
}

void HfFolder::settle_norm_biases(const std::string& source) {
    if (shape_.bias || !shape_.norm_bias || shape_.normalization != Normalization::layernorm)
        return;
    for (const ForeignTensor& tensor : hf_tensors(shape_, config_.hf_class)) {
        if (!is_norm_bias(tensor)) continue;
        const auto found = find(tensor.name);
        if (found == tensors_.end()) return;
        const SafetensorsFile& file = *found->second;
        const SafetensorsEntry& entry = file.tensors().find(found->first)->second;
        const std::string name = text(file.path().string(), ": tensor ", found->first);
        if (!all_zero(file.bytes_of(entry), weight_dtype(entry, name))) return;
    }
    config_.model.norm_bias.reset();
    spec_ = spec_of(config_, source);
    shape_ = shape_of(config_.model);
}

void HfFolder::open_files() {
    std::error_code ignored;
    // If both exist, transformers reads the single file.
    if (!std::filesystem::exists(folder_ / hf_weights_name, ignored)) {
        if (std::filesystem::exists(folder_ / hf_index_name, ignored)) return open_indexed();
        fail(ExitCode::bad_input, folder_.string(), ": has neither ", hf_weights_name, " nor ",
             hf_index_name, "; save the weights as safetensors");
    }
    const SafetensorsFile& file = open(std::string(hf_weights_name));
    for (const auto& [name, entry] : file.tensors())
        tensors_.emplace(name, &file);
}

const SafetensorsFile& HfFolder::open(const std::string& name) {
    const auto found = files_.find(name);
    if (found != files_.end()) return found->second;
    const std::filesystem::path path = folder_ / name;
    if (require_path(path, ExitCode::bad_input, "file") != std::filesystem::file_type::regular)
        fail(ExitCode::bad_input, path.string(), ": not a regular file");
    return files_.emplace(name, SafetensorsFile(path)).first->second;
}

void HfFolder::open_indexed() {
    const std::string source = (folder_ / hf_index_name).string();
    for (const auto& [tensor, name] :
         parse_hf_index(read_file(folder_ / hf_index_name, max_hf_file_bytes), source)) {
        const SafetensorsFile& file = open(name);
        if (!file.tensors().contains(tensor)) {
            fail(ExitCode::bad_input, source, ": places tensor ", tensor, " in ", name,
                 ", which does not have it");
        }
        tensors_.emplace(tensor, &file);
    }
    for (const auto& [name, file] : files_) {
        for (const auto& [tensor, entry] : file.tensors()) {
            const auto found = tensors_.find(tensor);
            if (found == tensors_.end() || found->second != &file) {
                fail(ExitCode::bad_input, source, ": does not place tensor ", tensor, " in ", name,
                     ", which has it");
            }
        }
    }
}

void HfFolder::place_tensors() {
    const std::map<std::string, Shape> shapes = model_shapes(shape_);
    std::vector<std::string_view> names;
    for (const auto& [name, file] : tensors_)
        names.push_back(name);
    if (shape_.experts) check_hf_experts(shape_, config_.hf_class, names, folder_.string());
    const HfForm form = {
        .fused = [&](std::int64_t layer) { return tensors_.contains(fused_experts_name(layer)); },
        .logit_factor = config_.logit_factor};
    std::set<std::string> used;
    for (const ForeignTensor& tensor : hf_tensors(shape_, config_.hf_class, form))
        for (std::string& name : place(tensor, shapes))
            used.insert(std::move(name));
    if (shape_.tie_embeddings) used.insert(check_tied_head());
    for (const auto& [name, file] : tensors_) {
        if (!used.contains(name) && !follows_from_others(name)) unused_tensors_.push_back(name);
    }
}

HfFolder::TensorFiles::const_iterator HfFolder::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    constexpr std::string_view optional_prefix = "transformer.";
    if (found != tensors_.end() || !name.starts_with(optional_prefix)) return found;
    return tensors_.find(name.substr(optional_prefix.size()));
}

std::string HfFolder::check_tied_head() const {
    const std::string head_name = text(hf_tensor_names(shape_, config_.hf_class).head, ".weight");
    const auto found = tensors_.find(head_name);
    if (found == tensors_.end()) return head_name;
    const SafetensorsFile& file = *found->second;
    const SafetensorsEntry& entry = file.tensors().find(head_name)->second;
    const std::string source = text(file.path().string(), ": tensor ", head_name);
    const StoredTensor head = {.bytes = file.bytes_of(entry), .dtype = weight_dtype(entry, source)};
    if (same_values(head, places_.at("wte.weight").front())) return head_name;
    fail(ExitCode::bad_input, source, " differs from the embedding, but the model of ",
         hf_config_name,
         " ties them; set tie_word_embeddings to false there to use the tensor, or remove it");
}

std::optional<FolderTensor> HfFolder::folder_tensor(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return std::nullopt;
    const SafetensorsFile& file = *found->second;
    const SafetensorsEntry& entry = file.tensors().find(name)->second;
    return FolderTensor{.entry = &entry,
                        .bytes = file.bytes_of(entry),
                        .source = text(file.path().string(), ": tensor ", name)};
}

std::vector<std::string> HfFolder::place(const ForeignTensor& tensor,
                                         const std::map<std::string, Shape>& shapes) {
    const auto found = find(tensor.name);
    const bool is_zero = tensor.parts.empty();
    if (found == tensors_.end()) {
        if (is_zero) return {};
        fail(ExitCode::bad_input, folder_.string(), ": tensor ", tensor.name, " is missing");
    }
    const std::string& name = found->first;
    const FolderTensor stored = folder_tensor(name).value();
    const auto nf4 = read_file_nf4(
        name, stored, [this](const std::string& other) { return folder_tensor(other); });
    const std::vector<std::int64_t>& shape = nf4 ? nf4->shape : stored.entry->shape;
    if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end())) {
        fail(ExitCode::bad_input, stored.source, " has shape ", shape_text(shape), ", but with ",
             hf_config_name, " it must have ", tensor.shape.to_text());
    }
    std::vector<std::string> used = {name};
    if (nf4) {
        used.insert(used.end(), nf4->names.begin(), nf4->names.end());
        place_parts(tensor, {.bytes = {}, .nf4 = nf4}, shapes, places_);
        return used;
    }
    const DType dtype = weight_dtype(*stored.entry, stored.source);
    if (is_zero) {
        if (all_zero(stored.bytes, dtype)) return used;
        fail(ExitCode::bad_input, stored.source, " is not zero, but the model of ", hf_config_name,
             " has none there");
    }
    place_parts(tensor, {.bytes = stored.bytes, .dtype = dtype}, shapes, places_);
    return used;
}

std::optional<Nf4View> HfFolder::nf4_matrix(const Shard& part) const {
    return stored_nf4(places_.find(part.name)->second, part);
}

void HfFolder::read(const Shard& part, std::span<float> to) const {
    read_stored(places_.find(part.name)->second, part, to);
}

void HfFolder::check(const ModelShape& model, const WeightReader& weights) const {
    check_read_back(model, shape_, config_.hf_class);
    const std::vector<Shard> tensors = whole_tensors(model);
    check_stored(places_, tensors, weights);
    std::set<std::string> ours;
    for (const Shard& tensor : tensors)
        ours.insert(tensor.name);
    for (const auto& [name, places] : places_) {
        GPTRAIN_CHECK(ours.contains(name) || all_zero(places[0].bytes, places[0].dtype), name,
                      " was not read back as 0");
    }
}

void warn_of_unused_tensors(const HfFolder& folder) {
    const std::vector<std::string>& unused = folder.unused_tensors();
    if (unused.empty()) return;
    warn(folder.path().string(), ": ", counted(std::ssize(unused), "tensor"),
         std::ssize(unused) == 1 ? " is" : " are", " not used, among them ", unused.front(),
         ": the model of ", hf_config_name, " has no place for it");
}

}  // namespace gptrain
