// Verification of a checkpoint by all ranks.
#pragma once

#include <filesystem>

#include "checkpoint/manifest.h"
#include "comm/mpi_session.h"

namespace gptrain {

struct VerifiedCheckpoint {
    std::filesystem::path folder;
    /// Version 2: on every rank; version 1: on rank 0, and empty on the others.
    AnyManifest manifest;
};

/// All ranks call it. Rank 0 reads the manifest in its `folder` and passes both on; the ranks share
/// the verification of the structure (of version 1 rank 0 does it). Damage is a CommonError.
VerifiedCheckpoint verify_together(const std::filesystem::path& folder, const MpiSession& ranks);

}  // namespace gptrain
