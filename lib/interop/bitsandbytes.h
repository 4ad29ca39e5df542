// Matrices in NF4 as bitsandbytes stores them in safetensors files: next to the codes in X.weight
// are X.weight.absmax, .quant_map, with nested scales .nested_absmax and .nested_quant_map, and
// .quant_state.bitsandbytes__nf4, a JSON object in bytes
// (https://github.com/bitsandbytes-foundation/bitsandbytes, QuantState.as_dict).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/nf4.h"
#include "interop/safetensors.h"

namespace gptrain {

/// Error (bad_input) unless the quantization_config of a config.json is that of weights in NF4.
void check_quantization_config(const Json& quantization, const std::string& source);

struct QuantState {
    std::vector<std::int64_t> shape;  ///< of the matrix
    bool nested = false;
    float offset = 0;  ///< of nested scales
};
/// Error (bad_input) for a faulty one, and for formats other than NF4 in blocks of 64.
QuantState parse_quant_state(std::string_view json, const std::string& source);

/// A tensor of a folder; `source` names file and tensor.
struct FolderTensor {
    const SafetensorsEntry* entry = nullptr;
    std::span<const std::byte> bytes = {};
    std::string source = {};
};
using FindTensor = std::function<std::optional<FolderTensor>(const std::string& name)>;

/// A matrix of a mapped file, which must outlive it.
struct FileNf4 {
    Nf4View matrix;
    std::vector<std::int64_t> shape;
    std::vector<std::string> names;  ///< of the tensors that tell how to read it
    std::vector<float> factors;      ///< memory of matrix.factors
};

/// The matrix whose codes are in `codes`, the tensor `name`; null if it is no such matrix. Error
/// (bad_input): a tensor next to it is missing or faulty.
std::shared_ptr<const FileNf4> read_file_nf4(const std::string& name, const FolderTensor& codes,
                                             const FindTensor& find);

}  // namespace gptrain
