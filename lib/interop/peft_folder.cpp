#include "interop/peft_folder.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/float_values.h"
#include "base/text.h"
#include "interop/peft_files.h"

namespace gptrain {
namespace {

constexpr std::string_view peft_prefix = "base_model.model.";
constexpr std::string_view lora_a_end = ".lora_A.weight";
constexpr std::string_view lora_b_end = ".lora_B.weight";

/// The module of a parameter: its name without the last part.
std::string peft_module_of(const std::string& parameter) {
    return parameter.substr(0, parameter.rfind('.'));
}

/// Which of the layers that can be adapted a parameter of ours belongs to.
std::optional<LinearName> linear_of(const std::string& parameter) {
    const std::string module = peft_module_of(parameter);
    for (const auto& [linear, word] : words_of(LinearName{}))
        if (module.ends_with(text(".", word))) return linear;
    return std::nullopt;
}

std::string entry_shape_text(const std::vector<std::int64_t>& shape) {
    std::string out;
    for (const std::int64_t size : shape)
        out += text(out.empty() ? "" : ", ", size);
    return "[" + out + "]";
}

}  // namespace

void PeftFolder::refuse(const auto&... parts) const {
    fail(ExitCode::bad_input, file_.path().string(), ": ", parts...);
}

PeftFolder::PeftFolder(const std::filesystem::path& folder, const ModelShape& base,
                       HfClass hf_class)
    : folder_(folder), config_(read_peft_config(folder)), file_(folder / peft_weights_name) {
    const std::vector<ForeignTensor> weights = hf_tensors(base, hf_class);
    std::vector<Module> modules = modules_of(weights);
    for (Module& module : modules) {
        check_shape(module);
        divide(module, model_shapes(base));
    }
    choose_adapter(modules);
    ModelShape adapted = base;
    adapted.lora = Lora{.rank = adapter_.rank, .targets = adapter_.targets};
    const std::map<std::string, Shape> shapes = model_shapes(adapted);
    for (const Module& module : modules)
        place(module, shapes);
    for (const auto& [name, shape] : shapes) {
        if (!is_adapter_parameter(name) || places_.contains(name)) continue;
        refuse("adapts ", name_of(*linear_of(name)), " in some layers, but has nothing for ",
               peft_module_of(name), "; an adapter of gptrain adapts all layers alike");
    }
}

const SafetensorsEntry* PeftFolder::find(const std::string& module, std::string_view matrix) const {
    const auto found = file_.tensors().find(text(peft_prefix, module, matrix));
    return found == file_.tensors().end() ? nullptr : &found->second;
}

std::vector<PeftFolder::Module> PeftFolder::modules_of(
    const std::vector<ForeignTensor>& weights) const {
    std::vector<Module> modules;
    std::set<std::string> known;
    for (const ForeignTensor& weight : weights) {
        if (weight.shape.rank() != 2 || weight.parts.empty()) continue;
        Module module = {.name = peft_module_of(weight.name),
                         .inputs = weight.shape[weight.transposed ? 0 : 1],
                         .outputs = weight.shape[weight.transposed ? 1 : 0],
                         .parts = weight.parts};
        module.a = find(module.name, lora_a_end);
        module.b = find(module.name, lora_b_end);
        if (module.a == nullptr && module.b == nullptr) continue;
        if (module.a == nullptr || module.b == nullptr)
            refuse("tensor ", peft_prefix, module.name,
                   module.a == nullptr ? lora_a_end : lora_b_end, " is missing");
        for (const TensorPart& part : module.parts) {
            if (!linear_of(part.name) || part.expert)
                refuse("adapts the module ", module.name,
                       ", but gptrain adapts only attn.q, attn.k, attn.v, attn.proj, mlp.fc, "
                       "mlp.gate and mlp.proj");
        }
        module.rank = config_.rank_of(module.name);
        known.insert(text(peft_prefix, module.name, lora_a_end));
        known.insert(text(peft_prefix, module.name, lora_b_end));
        modules.push_back(std::move(module));
    }
    for (const auto& [name, entry] : file_.tensors()) {
        if (known.contains(name)) continue;
        refuse("has the tensor ", name,
               ", which belongs to no linear layer of the base model; is it the adapter's base?");
    }
    if (modules.empty()) refuse("has no tensors");
    return modules;
}

void PeftFolder::check_shape(const Module& module) const {
    const auto check = [&](const SafetensorsEntry& entry, std::string_view matrix,
                           std::int64_t rows, std::int64_t columns) {
        const std::string name = text(peft_prefix, module.name, matrix);
        if (entry.shape != std::vector<std::int64_t>{rows, columns}) {
            refuse("tensor ", name, " has shape ", entry_shape_text(entry.shape),
                   ", but with this base and ", peft_config_name, " it must have [", rows, ", ",
                   columns, "]");
        }
        weight_dtype(entry, text(file_.path().string(), ": tensor ", name));
    };
    check(*module.a, lora_a_end, module.rank, module.inputs);
    check(*module.b, lora_b_end, module.outputs, module.rank);
}

std::vector<float> PeftFolder::values_of(const SafetensorsEntry& entry) const {
    std::vector<float> values(static_cast<std::size_t>(entry.shape[0] * entry.shape[1]));
    to_floats(file_.bytes_of(entry), weight_dtype(entry, file_.path().string()), 0, 1, values);
    return values;
}

void PeftFolder::divide(Module& module, const std::map<std::string, Shape>& shapes) const {
    const std::int64_t own = config_.rank;
    const std::int64_t count = module.rank / own;
    if (count < 2 || module.rank % own != 0 || count > std::ssize(module.parts)) return;
    const std::vector<float> b = values_of(*module.b);
    std::vector<TensorPart> parts;
    for (const TensorPart& part : module.parts) {
        // The blocks of columns in which the rows of this layer are not 0.
        std::set<std::int64_t> blocks;
        for (std::int64_t row = 0; row < shapes.at(part.name)[0]; ++row) {
            const std::int64_t first = part.rows.at(row) * module.rank;
            for (std::int64_t column = 0; column < module.rank; ++column)
                if (b[static_cast<std::size_t>(first + column)] != 0) blocks.insert(column / own);
        }
        const std::int64_t next = std::ssize(parts);
        if (blocks.empty() && count < std::ssize(module.parts)) continue;
        if (blocks.empty()) blocks.insert(next);
        if (blocks != std::set<std::int64_t>{next} || next == count) return;
        parts.push_back(part);
    }
    if (std::ssize(parts) != count) return;
    module.parts = std::move(parts);
    module.rank = own;
    module.divided = true;
}

void PeftFolder::choose_adapter(const std::vector<Module>& modules) {
    const Module& first = modules.front();
    const double scale = config_.scale_of(first.name);
    std::set<LinearName> targets;
    for (const Module& module : modules) {
        if (module.rank != first.rank)
            refuse("has rank ", module.rank, " in ", module.name, ", but ", first.rank, " in ",
                   first.name, " (rank_pattern); an adapter of gptrain has one rank");
        const double own = config_.scale_of(module.name);
        if (std::abs(own - scale) > 1e-12 * scale)
            refuse("multiplies the update of ", module.name, " by ", own, ", but that of ",
                   first.name, " by ", scale,
                   " (alpha_pattern); an adapter of gptrain has one factor");
        for (const TensorPart& part : module.parts)
            targets.insert(*linear_of(part.name));
    }
    adapter_ = {.kind = AdapterKind::lora,
                .rank = first.rank,
                .alpha = scale * static_cast<double>(first.rank),
                .dropout = config_.dropout,
                .targets = {targets.begin(), targets.end()}};
}

std::span<const std::byte> PeftFolder::keep(std::vector<float> values) {
    kept_.push_back(std::move(values));
    return std::as_bytes(std::span(kept_.back()));
}

void PeftFolder::place(const Module& module, const std::map<std::string, Shape>& shapes) {
    std::int64_t block = 0;
    for (const TensorPart& part : module.parts) {
        const std::string layer = peft_module_of(part.name);
        StoredTensor a = {.bytes = file_.bytes_of(*module.a),
                          .dtype = weight_dtype(*module.a, file_.path().string()),
                          .rows = {.first = module.divided ? block * module.rank : 0},
                          .columns = module.inputs};
        StoredTensor b = {.bytes = file_.bytes_of(*module.b),
                          .dtype = weight_dtype(*module.b, file_.path().string()),
                          .rows = part.rows,
                          .columns = module.rank};
        if (module.divided) {
            const std::vector<float> whole = values_of(*module.b);
            const std::int64_t width = module.b->shape[1];
            std::vector<float> own;
            for (std::int64_t row = 0; row < module.outputs; ++row) {
                const auto from = whole.begin() + row * width + block * module.rank;
                own.insert(own.end(), from, from + module.rank);
            }
            b.bytes = keep(std::move(own));
            b.dtype = DType::f32;
        }
        GPTRAIN_CHECK(shapes.contains(text(layer, lora_b_suffix)), layer);
        places_[text(layer, lora_a_suffix)] = {a};
        places_[text(layer, lora_b_suffix)] = {b};
        ++block;
    }
}

void PeftFolder::read(const Shard& part, std::span<float> to) const {
    read_stored(places_.find(part.name)->second, part, to);
}

}  // namespace gptrain
