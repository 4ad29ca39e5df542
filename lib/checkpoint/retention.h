// Which checkpoints a run keeps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>

#include "checkpoint/folder.h"

namespace gptrain {

/// Where a run keeps its checkpoints, and how many.
struct Retention {
    std::filesystem::path folder;  ///< the run's "checkpoints"
    std::int64_t keep_last = 3;    ///< at least 2; all: none is ever removed, nor verified first
    std::int64_t keep_every = 0;   ///< steps that are multiples of it are kept; 0: none

    static constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
};

/// The checkpoints whose structure has verified, so that each is read once. Leaves out one that has
/// been replaced since, or whose manifest is gone.
class VerifiedCheckpoints {
public:
    void add(const CheckpointFolder& checkpoint);
    /// One that the run has found damaged, or whose course it has left: it never verifies.
    void reject(const CheckpointFolder& checkpoint);
    bool is_rejected(const CheckpointFolder& checkpoint) const;
    /// Reads it if it is not known.
    bool verifies(const CheckpointFolder& checkpoint);
    bool contains(const CheckpointFolder& checkpoint) const;

private:
    /// Distinguishes a manifest from one that replaced it.
    struct Stamp {
        std::uint64_t inode = 0;
        std::int64_t bytes = 0;
        std::int64_t changed = 0;  ///< nanoseconds
        bool operator==(const Stamp&) const = default;
    };
    static Stamp stamp_of(const CheckpointFolder& checkpoint);

    std::map<std::int64_t, Stamp> stamps_;    ///< by step
    std::map<std::int64_t, Stamp> rejected_;  ///< by step
};

/// Keeps the `keep_last` newest checkpoints that verify (structure), any others newer than
/// the oldest of these, and multiples of `keep_every`; removes the rest. Ignores steps after
/// `newest`, which belong to another course of the run. A checkpoint is renamed before it is
/// removed, so that nobody sees it half-removed. Warns of what cannot be removed. `may_write`: an
/// Error of it, after the choice, prevents the removal.
void remove_old_checkpoints(const Retention& retention, std::int64_t newest,
                            VerifiedCheckpoints& verified,
                            const std::function<void()>& may_write = {});

}  // namespace gptrain
