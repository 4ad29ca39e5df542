// Fills tensors from a checkpoint, whatever mesh wrote it. Bytes are read at the offsets that the
// manifest gives, and only blocks whose checksum is right are used; the HDF5 library takes no part,
// so a crafted HDF5 file can do no harm.
#pragma once

#include <filesystem>

#include "backend/backend.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_source.h"

namespace gptrain {

/// Fills the shards of `needed` (owned or not) from the checkpoint in `folder`, whose manifest is
/// `manifest`. Reads only the blocks that they need; memory: at most 17 blocks. Each
/// rank calls it for itself. Error (bad_input): a tensor that is missing or has another shape; a
/// missing, short or damaged file (named with dataset and byte range). The tensors' contents are
/// then undefined.
void load_state(const std::filesystem::path& folder, const Manifest& manifest, Backend& backend,
                const StateSource& needed);

}  // namespace gptrain
