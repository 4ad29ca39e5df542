#include "checkpoint/view.h"

#include "base/error.h"
#include "base/temporary_file.h"
#include "checkpoint/hdf5_layout.h"
#include "checkpoint/shard_record.h"

namespace gptrain {

void write_view(const std::filesystem::path& folder, const Json& model) {
    const std::filesystem::path path = folder / model_index_name;
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
        fail(ExitCode::usage, path.string(), ": exists; --view is for checkpoints without it");
    write_file_durably(path, virtual_index(path, read_manifest(folder).tensors, model));
}

}  // namespace gptrain
