#include "interop/peft_files.h"

#include "base/file.h"
#include "base/temporary_file.h"
#include "interop/safetensors.h"
#include "interop/stored_tensors.h"

namespace gptrain {
namespace {

void write_weights(const std::filesystem::path& path, const std::vector<PeftTensor>& tensors,
                   DType dtype) {
    std::vector<NamedShape> shapes;
    for (const PeftTensor& tensor : tensors)
        shapes.push_back({tensor.name, tensor.shape, dtype});
    File file(path, File::Mode::create);
    file.write(safetensors_prefix(shapes));
    for (const PeftTensor& tensor : tensors)
        write_floats(file, tensor.name, tensor.values, dtype);
    file.sync();
    file.close();
}

void check_weights(const std::filesystem::path& path, const std::vector<PeftTensor>& tensors,
                   DType dtype) {
    const SafetensorsFile file(path);
    GPTRAIN_CHECK(file.tensors().size() == tensors.size());
    for (const PeftTensor& tensor : tensors) {
        const SafetensorsEntry& entry = file.tensors().at(tensor.name);
        const StoredTensor stored = {.bytes = file.bytes_of(entry),
                                     .dtype = weight_dtype(entry, path.string()),
                                     .columns = tensor.shape[1]};
        std::vector<float> read(tensor.values.size());
        read_stored({&stored, 1}, Shard::whole(tensor.name, tensor.shape), read);
        std::vector<float> written = tensor.values;
        round_floats(written, dtype);
        GPTRAIN_CHECK(read == written, tensor.name, " was not written right");
    }
}

}  // namespace

void write_peft_files(const std::filesystem::path& folder, const std::vector<PeftTensor>& tensors,
                      DType dtype, const Json& config) {
    const std::filesystem::path path = folder / peft_weights_name;
    write_weights(path, tensors, dtype);
    check_weights(path, tensors, dtype);
    write_file_durably(folder / peft_config_name, to_document(config));
}

}  // namespace gptrain
