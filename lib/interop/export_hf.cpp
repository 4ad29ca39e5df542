#include "interop/export_hf.h"

#include <algorithm>

#include "base/file.h"
#include "base/temporary_file.h"
#include "interop/hf_folder.h"
#include "interop/safetensors.h"
#include "interop/stored_tensors.h"

namespace gptrain {
namespace {

DType dtype_of(const ForeignTensor& tensor, DType dtype) {
    return tensor.always_f32 ? DType::f32 : dtype;
}

std::int64_t bytes_of(const ForeignTensor& tensor, DType dtype) {
    return checked_mul(tensor.shape.elements(), size_of(dtype_of(tensor, dtype)));
}

using ShardFiles = std::vector<std::vector<ForeignTensor>>;

/// Distributes the tensors over files, in order. In a file, those with larger elements come first,
/// so that all are aligned.
ShardFiles split(std::vector<ForeignTensor> tensors, const HfExport& request) {
    ShardFiles files(1);
    std::int64_t bytes = 0;
    for (ForeignTensor& tensor : tensors) {
        const std::int64_t more = bytes_of(tensor, request.dtype);
        if (!files.back().empty() && bytes + more > request.max_shard_bytes) {
            files.emplace_back();
            bytes = 0;
        }
        bytes += more;
        files.back().push_back(std::move(tensor));
    }
    for (std::vector<ForeignTensor>& file : files) {
        std::sort(file.begin(), file.end(), [&](const ForeignTensor& a, const ForeignTensor& b) {
            const std::int64_t sizes[] = {size_of(dtype_of(a, request.dtype)),
                                          size_of(dtype_of(b, request.dtype))};
            return sizes[0] != sizes[1] ? sizes[0] > sizes[1] : a.name < b.name;
        });
    }
    return files;
}

std::string digits(std::size_t number) {
    const std::string shown = text(number);
    return std::string(shown.size() < 5 ? 5 - shown.size() : 0, '0') + shown;
}

std::string shard_name(std::size_t index, std::size_t count) {
    if (count == 1) return std::string(hf_weights_name);
    return text("model-", digits(index + 1), "-of-", digits(count), ".safetensors");
}

class ModelWriter {
public:
    ModelWriter(const std::filesystem::path& folder, const HfExport& request,
                const WeightReader& weights)
        : folder_(folder),
          request_(request),
          weights_(weights),
          shapes_(model_shapes(request.model)) {}

    void write() {
        const ShardFiles files =
            split(hf_tensors(request_.model, hf_class_of(request_.model)), request_);
        Json map = Json::object();
        std::int64_t total = 0;
        for (std::size_t i = 0; i < files.size(); ++i) {
            const std::string name = shard_name(i, files.size());
            total += write_shard(name, files[i]);
            for (const ForeignTensor& tensor : files[i])
                map[tensor.name] = name;
        }
        if (files.size() == 1) return;
        write_file_durably(
            folder_ / hf_index_name,
            to_document({{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}}));
    }

private:
    /// Returns the bytes of its tensors.
    std::int64_t write_shard(const std::string& name, const std::vector<ForeignTensor>& tensors) {
        std::vector<NamedShape> shapes;
        std::int64_t bytes = 0;
        for (const ForeignTensor& tensor : tensors) {
            shapes.push_back({tensor.name, tensor.shape, dtype_of(tensor, request_.dtype)});
            bytes = checked_add(bytes, bytes_of(tensor, request_.dtype));
        }
        const std::string prefix = safetensors_prefix(shapes);
        File file(folder_ / name, File::Mode::create);
        file.reserve(checked_add(bytes, std::ssize(prefix)));
        file.write(prefix);
        std::vector<float> values;
        for (const ForeignTensor& tensor : tensors) {
            read_foreign(tensor, shapes_, weights_, values);
            write_floats(file, tensor.name, values, dtype_of(tensor, request_.dtype));
        }
        file.sync();
        file.close();
        return bytes;
    }

    std::filesystem::path folder_;
    const HfExport& request_;
    const WeightReader& weights_;
    std::map<std::string, Shape> shapes_;
};

}  // namespace

void write_hf_model(const std::filesystem::path& folder, const HfExport& request,
                    const WeightReader& weights) {
    const Json config = hf_config(request.model, request.ids, request.dtype);
    ModelWriter(folder, request, weights).write();
    write_file_durably(folder / hf_config_name, to_document(config));
}

}  // namespace gptrain
