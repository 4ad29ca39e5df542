// The checkpoint that a run goes on from, chosen and loaded by all of its ranks together.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_source.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// Rank 0 alone reads manifests; the others know what all need, and while they load their part of
/// the rest. All ranks call everything together and see the same; what one throws all throw
/// (CommonError).
class RestartPoint {
public:
    /// The first of rank 0's `candidates`, newest first, whose manifest, sizes and HDF5 structure
    /// verify. A damaged one is passed over with a warning; if all are, Error (bad_input; that of
    /// the only one is its own). Nothing if there is no candidate. The session must outlive it.
    static std::optional<RestartPoint> find(std::vector<std::filesystem::path> candidates,
                                            const MpiSession& ranks);

    const std::filesystem::path& folder() const { return folder_; }
    const CheckpointMeta& meta() const { return meta_; }

    /// The contents of a file that holds no tensor, every byte checked; nothing where the
    /// checkpoint has none of that name. To be called before `load`. Error (bad_input): it has more
    /// than `limit` bytes, or is damaged.
    std::optional<std::string> whole_file(const std::string& name, std::int64_t limit) const;

    /// Fills the shards of `needed` as load_state does, every byte checked. Where one rank meets
    /// damage, all pass over this checkpoint with a warning that names rank, file, dataset and
    /// bytes, and go to the next candidate; `accept` may refuse that by an Error.
    void load(Backend& backend, const StateSource& needed, const std::function<void()>& accept);
    /// The same where `fill` (on each rank for itself) does more than load_state: it is given what
    /// that takes, this rank's part of the manifest.
    using Fill = std::function<void(const std::filesystem::path& folder, const Manifest& part)>;
    void load(const StateSource& needed, const Fill& fill, const std::function<void()>& accept);

private:
    RestartPoint(std::vector<std::filesystem::path> candidates, const MpiSession& ranks)
        : candidates_(std::move(candidates)), ranks_(&ranks) {}

    /// Goes to the next candidate that verifies; false if there is none at all.
    bool open_next();
    void open_first_that_verifies();
    /// Called while the damage is being handled: throws it again where it is final.
    void pass_over(const Error& damage);
    /// This rank's part of the manifest.
    Manifest part_of(const StateSource& needed) const;

    std::vector<std::filesystem::path> candidates_;  ///< rank 0's
    bool only_one_ = false;
    const MpiSession* ranks_;
    std::size_t next_ = 0;  ///< candidate to try
    std::filesystem::path folder_;
    CheckpointMeta meta_;
    Manifest manifest_;  ///< rank 0's
};

}  // namespace gptrain
