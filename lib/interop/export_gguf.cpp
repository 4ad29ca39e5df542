#include "interop/export_gguf.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "interop/gguf_model.h"

namespace gptrain {
namespace {

/// llama.cpp adds vectors and the embeddings of positions in fp32, and takes routers in fp32.
DType dtype_in_file(const ForeignTensor& tensor, DType dtype) {
    const bool added = tensor.shape.rank() == 1 || tensor.name == "position_embd.weight";
    return added || tensor.always_f32 ? DType::f32 : dtype;
}

std::int64_t file_type(DType dtype) {
    switch (dtype) {
        case DType::bf16: return 32;
        case DType::f16: return 1;
        default: return 0;
    }
}

GgufMetadata metadata_of(const GgufExport& request) {
    GgufMetadata metadata;
    add_gguf_model(request.model, metadata);
    metadata.add_text("general.type", "model");
    metadata.add_text("general.name", request.name);
    metadata.add_size("general.file_type", file_type(request.dtype));
    metadata.add_size("general.quantization_version", 2);
    add_gguf_vocabulary(request.tokenizer, request.model.vocab, metadata);
    return metadata;
}

void write_tensor(File& file, const GgufTensor& tensor, std::span<const float> values) {
    write_floats(file, tensor.name, values, tensor.dtype);
    const std::int64_t bytes = tensor.shape.elements() * size_of(tensor.dtype);
    file.write(std::string(static_cast<std::size_t>(gguf_bytes(tensor) - bytes), '\0'));
}

}  // namespace

void write_gguf_model(const std::filesystem::path& path, const GgufExport& request,
                      const WeightReader& weights) {
    check_gguf_model(request.model);
    const std::vector<ForeignTensor> tensors =
        gguf_tensors(request.model, hf_class_of(request.model));
    const std::vector<float> factors = gguf_rope_factors(request.model);
    std::vector<GgufTensor> listed;
    for (const ForeignTensor& tensor : tensors)
        listed.push_back({tensor.name, tensor.shape, dtype_in_file(tensor, request.dtype)});
    if (!factors.empty())
        listed.push_back({std::string(gguf_rope_factors_name), {std::ssize(factors)}, DType::f32});

    const std::string prefix = gguf_prefix(metadata_of(request), listed);
    std::int64_t bytes = std::ssize(prefix);
    for (const GgufTensor& tensor : listed)
        bytes = checked_add(bytes, gguf_bytes(tensor));
    File file(path, File::Mode::create);
    file.reserve(bytes);
    file.write(prefix);
    const std::map<std::string, Shape> shapes = model_shapes(request.model);
    std::vector<float> values;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        read_foreign(tensors[i], shapes, weights, values);
        write_tensor(file, listed[i], values);
    }
    if (!factors.empty()) write_tensor(file, listed.back(), factors);
    file.sync();
    file.close();
}

GgufModel::GgufModel(const std::filesystem::path& path, const ModelShape& model)
    : file_(path), model_(model), tensors_(whole_tensors(model)) {
    const std::map<std::string, Shape> shapes = model_shapes(model);
    for (const ForeignTensor& tensor : gguf_tensors(model, hf_class_of(model))) {
        const GgufFile::Entry& entry = file_.tensor(tensor.name);
        GPTRAIN_CHECK(std::equal(entry.shape.begin(), entry.shape.end(), tensor.shape.begin(),
                                 tensor.shape.end()),
                      tensor.name, " has another shape than ", tensor.shape.to_text());
        place_parts(tensor, {.bytes = entry.bytes, .dtype = entry.dtype}, shapes, places_);
    }
}

void GgufModel::read(const Shard& part, std::span<float> to) const {
    read_stored(places_.find(part.name)->second, part, to);
}

void GgufModel::check(const WeightReader& weights) const {
    check_gguf_settings(file_, model_);
    check_stored(places_, tensors_, weights);
}

}  // namespace gptrain
