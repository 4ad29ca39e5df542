// Makes model.h5 for a checkpoint that was saved without it or has lost it.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "checkpoint/manifest.h"

namespace gptrain {

/// Writes model.h5 into the checkpoint `folder`, which has this manifest, with these attributes
/// (see write_attributes), also in place of a damaged one. If there is a sound one: Error (usage).
void write_view(const std::filesystem::path& folder, const Manifest& manifest, const Json& model);

}  // namespace gptrain
