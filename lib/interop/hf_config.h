// config.json and generation_config.json of Hugging Face's transformers, in the dialects of its
// versions 4 and 5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "base/json.h"
#include "interop/hf_classes.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Ids of special tokens.
struct SpecialIds {
    std::optional<std::int64_t> bos;
    std::optional<std::int64_t> eos;
    std::vector<std::int64_t> more_eos = {};  ///< others that end a text
};

struct HfConfig {
    HfClass hf_class = HfClass::llama;
    ModelSpec model;  ///< with every size
    SpecialIds ids;
    double logit_factor = 1;  ///< of the logits, a power of 2
};

/// Reads a config.json; `source` names it in messages. A setting that no key of the run spec
/// expresses is an Error (bad_input) that names its key and value.
HfConfig read_hf_config(const Json& config, const std::string& source);

/// The config.json of a model whose weights are stored as `dtype`, for versions 4 and 5.
Json hf_config(const ModelShape& model, const SpecialIds& ids, DType dtype);

/// The ids in a config.json or generation_config.json; those outside the vocabulary are left out.
SpecialIds special_ids(const Json& config, const std::string& source, std::int64_t vocab);

/// A generation_config.json.
std::string generation_config(const SpecialIds& ids);

/// The sizes of a model spec in which all are set.
ModelShape shape_of(const ModelSpec& model);

}  // namespace gptrain
