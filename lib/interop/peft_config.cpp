#include "interop/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "interop/hf_folder.h"
#include "interop/peft_files.h"

namespace gptrain {
namespace {

namespace fs = std::filesystem;

/// Keys that say how the adapter was made, or where, and change nothing that it computes.
constexpr std::array<std::string_view, 14> peft_notes = {
    "auto_mapping",    "base_model_name_or_path",
    "exclude_modules", "fan_in_fan_out",
    "inference_mode",  "layers_pattern",
    "megatron_core",   "peft_version",
    "revision",        "qalora_group_size",
    "task_type",       "target_modules",
    "eva_config",      "peft_type"};
/// Keys that PeftConfig holds.
constexpr std::array<std::string_view, 8> peft_read_keys = {
    "r",    "lora_alpha",   "lora_dropout",  "use_rslora",
    "bias", "rank_pattern", "alpha_pattern", "init_lora_weights"};

bool says_nothing(const Json& value) {
    return value.is_null() || value == false || (value.is_structured() && value.empty());
}

[[noreturn]] void refuse_peft(const std::string& source, const auto&... parts) {
    fail(ExitCode::bad_input, source, ": ", parts...);
}

double peft_number(const Json& json, std::string_view key, double low, double high,
                   double otherwise, const std::string& source) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return otherwise;
    const double value = found->is_number() ? found->get<double>() : std::nan("");
    if (!(value >= low && value <= high))
        refuse_peft(source, "'", key, "' is ", to_line(*found), ", must be a number from ", low,
                    " to ", high);
    return value;
}

std::int64_t peft_rank(double value, std::string_view key, const std::string& source) {
    if (value != std::floor(value))
        refuse_peft(source, "'", key, "' is ", value, ", no whole number");
    return static_cast<std::int64_t>(value);
}

bool peft_flag(const Json& json, std::string_view key, const std::string& source) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return false;
    if (!found->is_boolean()) refuse_peft(source, "'", key, "' must be true or false");
    return found->get<bool>();
}

std::vector<PeftConfig::Pattern> peft_patterns(const Json& json, std::string_view key, double low,
                                               double high, const std::string& source) {
    std::vector<PeftConfig::Pattern> patterns;
    const auto found = json.find(key);
    if (found == json.end() || says_nothing(*found)) return patterns;
    if (!found->is_object()) refuse_peft(source, "'", key, "' must be an object");
    for (const auto& [module, value] : found->items()) {
        const bool plain = std::all_of(module.begin(), module.end(), [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '_' || c == '.';
        });
        if (!plain || module.empty())
            refuse_peft(source, "'", key, "' has the regular expression \"", module,
                        "\", which gptrain does not read; write the names of modules");
        patterns.push_back({module, peft_number(*found, module, low, high, low, source)});
    }
    return patterns;
}

/// As PEFT matches a pattern without special characters: a whole name, or its last parts.
bool matches_module(std::string_view module, std::string_view pattern) {
    if (!module.ends_with(pattern)) return false;
    const std::size_t before = module.size() - pattern.size();
    return before == 0 || module[before - 1] == '.';
}

void check_peft_kind(const Json& json, const std::string& source) {
    const auto kind = json.find("peft_type");
    if (kind == json.end() || !kind->is_string()) refuse_peft(source, "has no 'peft_type'");
    if (*kind != "LORA")
        refuse_peft(source, "'peft_type' is ", to_line(*kind), ", but only LORA is read");
    const auto bias = json.find("bias");
    if (bias != json.end() && !bias->is_null() && *bias != "none")
        refuse_peft(source, "'bias' is ", to_line(*bias),
                    ": the adapter has biases, which gptrain does not train");
    // Others draw the matrices, but these take something off the weights of the base.
    const auto init = json.find("init_lora_weights");
    if (init == json.end() || !init->is_string()) return;
    const auto& word = init->get_ref<const std::string&>();
    for (const std::string_view other : {"pissa", "olora", "corda", "loftq", "lora_ga"}) {
        if (word.starts_with(other))
            refuse_peft(source, "'init_lora_weights' is \"", word,
                        "\", which changes the weights of the base; save the adapter as one of the "
                        "unchanged base (path_initial_model_for_weight_conversion in PEFT)");
    }
}

void check_peft_keys(const Json& json, const std::string& source) {
    const auto among = [](const auto& keys, std::string_view key) {
        return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    for (const auto& [key, value] : json.items()) {
        if (says_nothing(value) || among(peft_notes, key) || among(peft_read_keys, key)) continue;
        const std::string_view what =
            key == "use_dora" ? ": this is DoRA, which gptrain does not compute"
            : key == "modules_to_save"
                ? ": whole modules were trained, which no adapter of gptrain "
                  "has; merge the adapter into its base with PEFT"
            : key.starts_with("layers_to_transform")
                ? ": an adapter of gptrain adapts all layers alike"
                : ", which gptrain does not read; merge the adapter into its base with PEFT";
        refuse_peft(source, "has '", key, "': ", to_line(value), what);
    }
}

}  // namespace

bool is_peft_folder(const fs::path& folder) {
    std::error_code ignored;
    return fs::is_regular_file(folder / peft_config_name, ignored) && !is_hf_folder(folder) &&
           !fs::exists(folder / "manifest.json", ignored);
}

std::int64_t PeftConfig::rank_of(std::string_view module) const {
    for (const Pattern& pattern : ranks)
        if (matches_module(module, pattern.module)) return static_cast<std::int64_t>(pattern.value);
    return rank;
}

double PeftConfig::scale_of(std::string_view module) const {
    double own = alpha;
    for (const Pattern& pattern : alphas) {
        if (!matches_module(module, pattern.module)) continue;
        own = pattern.value;
        break;
    }
    const auto size = static_cast<double>(rank_of(module));
    return own / (rslora ? std::sqrt(size) : size);
}

PeftConfig parse_peft_config(const Json& json, const std::string& source) {
    if (!json.is_object()) refuse_peft(source, "must be a JSON object");
    check_peft_kind(json, source);
    check_peft_keys(json, source);
    constexpr double most_rank = 4096;
    constexpr double most_alpha = 1e9;
    PeftConfig config;
    const auto base = json.find("base_model_name_or_path");
    if (base != json.end() && base->is_string()) config.base = base->get<std::string>();
    config.rank = peft_rank(peft_number(json, "r", 1, most_rank, 8, source), "r", source);
    config.alpha = peft_number(json, "lora_alpha", 1e-9, most_alpha, 8, source);
    config.dropout = peft_number(json, "lora_dropout", 0, 0.999, 0, source);
    config.rslora = peft_flag(json, "use_rslora", source);
    config.ranks = peft_patterns(json, "rank_pattern", 1, most_rank, source);
    for (const PeftConfig::Pattern& pattern : config.ranks)
        peft_rank(pattern.value, "rank_pattern", source);
    config.alphas = peft_patterns(json, "alpha_pattern", 1e-9, most_alpha, source);
    return config;
}

PeftConfig read_peft_config(const fs::path& folder) {
    const std::string source = (folder / peft_config_name).string();
    return parse_peft_config(parse_json(read_file(source, max_hf_file_bytes), source), source);
}

fs::path peft_base(const fs::path& folder, std::string_view remedy) {
    const std::string source = (folder / peft_config_name).string();
    const std::string base = read_peft_config(folder).base;
    std::error_code ignored;
    if (!base.empty()) {
        for (const fs::path& path : {fs::path(base), folder / base, folder.parent_path() / base})
            if (fs::is_directory(path, ignored)) return absolute_path(path);
    }
    fail(ExitCode::usage, source, ": its base model ",
         base.empty() ? "is not named" : text("\"", base, "\" is no folder here"), "; ", remedy);
}

void warn_of_other_base(const fs::path& folder, const PeftConfig& config, const fs::path& base) {
    const auto name = [](fs::path path) {
        if (!path.has_filename()) path = path.parent_path();
        return path.filename();
    };
    if (config.base.empty() || name(config.base) == name(base)) return;
    warn(folder.string(), ": names \"", config.base, "\" as its base model, but is used with ",
         base.string());
}

}  // namespace gptrain
