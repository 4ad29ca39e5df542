#include "checkpoint/view.h"

#include "base/file.h"
#include "base/temporary_file.h"
#include "checkpoint/hdf5_layout.h"
#include "checkpoint/shard_record.h"

namespace gptrain {

void write_view(const std::filesystem::path& folder, const Json& model) {
    const std::filesystem::path path = folder / model_index_name;
    require_new(path, "--view");
    write_file_durably(path, virtual_index(path, read_manifest(folder).tensors, model));
}

}  // namespace gptrain
