// Loads tensors from a checkpoint, whatever mesh wrote it. It reads bytes at the offsets in the
// manifest and uses only blocks with a valid checksum. The HDF5 library is not involved, so a
// crafted HDF5 file can do no harm.
#pragma once

#include <filesystem>

#include "backend/backend.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_source.h"

namespace gptrain {

/// Fills the shards of `needed` (owned or not) from the checkpoint in `folder`. `manifest` is its
/// manifest, or the part of it that they need (manifest_part.h). A few threads read the required
/// blocks only; each buffers at most 16 blocks if the saving mesh differed, and all together 16
/// more for a backend that does not compute in host memory and for values in 16 bits. The shards
/// must live until it returns, and are then filled. Each rank calls it independently. Error
/// (bad_input): a tensor is missing or has another shape, or a file is missing, short or damaged
/// (names dataset and byte range). The tensors' contents are then undefined.
void load_state(const std::filesystem::path& folder, const Manifest& manifest, Backend& backend,
                const StateSource& needed);

}  // namespace gptrain
