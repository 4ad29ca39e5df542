// model.h5 of a checkpoint that was saved without it, because so many ranks cut its tensors.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "checkpoint/manifest.h"

namespace gptrain {

/// Writes model.h5 into the checkpoint `folder`, which has this manifest, with these attributes
/// (see write_attributes). If there is one: Error (usage).
void write_view(const std::filesystem::path& folder, const Manifest& manifest, const Json& model);

}  // namespace gptrain
