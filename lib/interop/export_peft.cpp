#include "interop/export_peft.h"

#include <algorithm>

#include "interop/hf_classes.h"
#include "interop/peft_files.h"
#include "interop/peft_prompt.h"

namespace gptrain {
namespace {

/// The module of a parameter: its name without the last part.
std::string module_of(const std::string& parameter) {
    return parameter.substr(0, parameter.rfind('.'));
}

/// The last two parts of a module's name, such as "attn.c_proj", or the last one after the number
/// of the block.
std::string name_in_block(const std::string& module) {
    const std::size_t last = module.rfind('.');
    const std::size_t begin = module.rfind('.', last - 1) + 1;
    const bool numbered = std::all_of(module.begin() + static_cast<std::ptrdiff_t>(begin),
                                      module.begin() + static_cast<std::ptrdiff_t>(last),
                                      [](char c) { return c >= '0' && c <= '9'; });
    return module.substr(numbered ? last + 1 : begin);
}

class Adapter {
public:
    Adapter(const PeftExport& request, const WeightReader& weights)
        : lora_(*request.model.lora), weights_(weights) {
        for (const Shard& tensor : whole_tensors(request.model))
            tensors_.emplace(tensor.name, tensor);
        const ModelShape plain = without_adapter(request.model);
        for (const ForeignTensor& tensor : hf_tensors(plain, request.hf_class))
            add(tensor);
        std::sort(list_.begin(), list_.end(),
                  [](const PeftTensor& a, const PeftTensor& b) { return a.name < b.name; });
    }

    const std::vector<PeftTensor>& tensors() const { return list_; }

    Json config(const std::string& adapted_path) const {
        Json ranks = Json::object();
        Json alphas = Json::object();
        Json targets = Json::array();
        for (const auto& [module, count] : adapted_) {
            targets.push_back(module);
            if (count == 1) continue;
            ranks[module] = count * lora_.rank;
            alphas[module] = static_cast<double>(count) * alpha();
        }
        return {
            {"peft_type", "LORA"},
            {"task_type", "CAUSAL_LM"},
            {"base_model_name_or_path", adapted_path.empty() ? Json(nullptr) : Json(adapted_path)},
            {"r", lora_.rank},
            {"lora_alpha", alpha()},
            {"lora_dropout", lora_.dropout},
            {"target_modules", std::move(targets)},
            {"rank_pattern", std::move(ranks)},
            {"alpha_pattern", std::move(alphas)},
            {"bias", "none"},
            {"fan_in_fan_out", transposed_},
            {"inference_mode", true},
            {"init_lora_weights", true},
            {"modules_to_save", nullptr},
            {"use_rslora", false},
            {"use_dora", false}};
    }

private:
    double alpha() const { return lora_.scale * static_cast<double>(lora_.rank); }

    std::vector<float> read(const std::string& name) const {
        return read_all(weights_, tensors_.at(name));
    }

    /// The matrices of a foreign linear layer, if it holds layers that are adapted.
    void add(const ForeignTensor& tensor) {
        if (tensor.shape.rank() != 2) return;
        std::vector<std::string> adapted;
        for (const TensorPart& part : tensor.parts)
            if (tensors_.contains(text(module_of(part.name), lora_a_suffix)))
                adapted.push_back(part.name);
        if (adapted.empty()) return;
        transposed_ = tensor.transposed;
        const std::string module = module_of(tensor.name);
        const auto count = std::ssize(adapted);
        adapted_.insert_or_assign(name_in_block(module), count);
        const std::int64_t rank = count * lora_.rank;
        const std::int64_t outputs = tensor.shape[tensor.transposed ? 1 : 0];
        const std::int64_t inputs = tensor.shape[tensor.transposed ? 0 : 1];
        const std::string name = "base_model.model." + module;
        PeftTensor a = {name + ".lora_A.weight", {rank, inputs}, {}};
        PeftTensor b = {name + ".lora_B.weight", {outputs, rank}, {}};
        b.values.resize(static_cast<std::size_t>(outputs * rank));
        std::int64_t column = 0;
        for (const auto& [part, expert, rows] : tensor.parts) {
            if (std::find(adapted.begin(), adapted.end(), part) == adapted.end()) continue;
            const std::vector<float> own = read(text(module_of(part), lora_a_suffix));
            a.values.insert(a.values.end(), own.begin(), own.end());
            place(read(text(module_of(part), lora_b_suffix)), b, rows, column);
            column += lora_.rank;
        }
        list_.push_back(std::move(a));
        list_.push_back(std::move(b));
    }

    /// Copies B of one of our layers to its rows, and to columns from `column` on.
    void place(const std::vector<float>& from, PeftTensor& to, const StackRows& rows,
               std::int64_t column) const {
        for (std::size_t i = 0; i < from.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            to.values[static_cast<std::size_t>(rows.at(at / lora_.rank) * to.shape[1] + column +
                                               at % lora_.rank)] = from[i];
        }
    }

    const Lora& lora_;
    const WeightReader& weights_;
    std::map<std::string, Shard> tensors_;  ///< of our model
    std::vector<PeftTensor> list_;
    /// For the end of each adapted module's name, how many of our layers it holds.
    std::map<std::string, std::int64_t> adapted_;
    bool transposed_ = false;
};

}  // namespace

void write_peft_adapter(const std::filesystem::path& folder, const PeftExport& request,
                        const WeightReader& weights) {
    if (request.model.prompt) {
        write_peft_files(folder, {peft_prompt(request.model, weights)}, request.dtype,
                         peft_prompt_config(request.model, request.adapted_path));
        return;
    }
    const Adapter adapter(request, weights);
    write_peft_files(folder, adapter.tensors(), request.dtype,
                     adapter.config(request.adapted_path));
}

}  // namespace gptrain
