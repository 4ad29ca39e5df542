#include "checkpoint/view.h"

#include "base/error.h"
#include "base/temporary_file.h"
#include "checkpoint/hdf5_layout.h"
#include "checkpoint/verify.h"

namespace gptrain {
namespace {

/// True if the manifest lists model.h5 and the file differs from it.
bool is_damaged(const std::filesystem::path& folder, const Manifest& manifest) {
    const FileRecord* listed = manifest.find_file(model_index_name);
    return listed != nullptr && !damage_to(folder, *listed).empty();
}

}  // namespace

void write_view(const std::filesystem::path& folder, const Manifest& manifest, const Json& model) {
    const std::filesystem::path path = folder / model_index_name;
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored)) &&
        !is_damaged(folder, manifest))
        fail(ExitCode::usage, path.string(), ": exists; --view is for checkpoints without it");
    write_file_durably(path, virtual_index(path, manifest.tensors, model));
}

}  // namespace gptrain
