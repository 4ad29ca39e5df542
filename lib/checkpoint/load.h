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
/// `manifest`, or as much of it as they need (see manifest_part.h). A few threads read the blocks
/// that are needed and no others; what they hold is at most 16 blocks each, where the mesh that
/// saved was another, and 16 together for a backend that does not compute in host memory. The
/// shards are filled when it returns; all of them must live until then. Each rank calls it for
/// itself. Error (bad_input): a tensor
/// that is missing or has another shape; a missing, short or damaged file (named with dataset and
/// byte range). The tensors' contents are then undefined.
void load_state(const std::filesystem::path& folder, const Manifest& manifest, Backend& backend,
                const StateSource& needed);

}  // namespace gptrain
