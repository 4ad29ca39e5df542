// The checkpoint that a run resumes from, chosen and loaded by all its ranks together.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/local_restart.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_source.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// Rank 0 reads manifests; all ranks share the verification of the shard files and read the records
/// that they need. All ranks call each function together and get the same result; if one throws,
/// all throw (CommonError).
class RestartPoint {
public:
    /// The first of rank 0's `candidates`, newest first, whose manifest, records, sizes and HDF5
    /// structure verify. Skips damaged ones with a warning, and unreadable ones after a second try.
    /// If none is left: Error (bad_input, or io if one could not be read), or that candidate's own
    /// error if there is only one. Empty if there is no candidate. The session must outlive it.
    /// `local`, the newest copies of each tier, are ranked among the candidates by their steps; of
    /// the same step copies in memory come first, and local copies after the checkpoint.
    static std::optional<RestartPoint> find(std::vector<std::filesystem::path> candidates,
                                            const MpiSession& ranks,
                                            std::vector<LocalRestart> local = {});

    const std::filesystem::path& folder() const { return folder_; }
    const CheckpointMeta& meta() const { return meta_; }
    /// The local copies that are loaded, if any.
    const std::optional<LocalRestart>& local() const { return local_; }
    /// The names of copies that have not been tried.
    std::vector<std::string> untried_copies() const;
    /// On rank 0: the checkpoint that was chosen, unless it is local copies, and the candidates
    /// after it.
    std::vector<std::filesystem::path> course() const;

    /// The contents of a file without tensors, every byte verified; nothing if the checkpoint has
    /// no file of that name, as local copies. Call it before `load`. Error (bad_input): it is
    /// damaged, or larger than `limit` bytes.
    std::optional<std::string> whole_file(const std::string& name, std::int64_t limit) const;

    /// Fills the shards of `needed` as load_state does, every byte verified. If one rank finds
    /// damage, all skip this checkpoint, with a warning that names rank, file, dataset and bytes,
    /// and go to the next candidate; `check_candidate` may refuse that one by throwing an Error.
    void load(Backend& backend, const StateSource& needed,
              const std::function<void()>& check_candidate);
    /// The same, with `fill` (run by each rank) in place of load_state. It receives the same
    /// arguments: folder and this rank's part of the manifest.
    using Fill = std::function<void(const std::filesystem::path& folder, const Manifest& part)>;
    void load(const StateSource& needed, const Fill& fill,
              const std::function<void()>& check_candidate);

private:
    RestartPoint(std::vector<std::filesystem::path> candidates, const MpiSession& ranks,
                 std::vector<LocalRestart> local);

    /// How many of the candidates come before the next copies.
    std::size_t before_copies() const;
    /// Calls `load_one`, which loads what is open, until it returns true.
    void load_any(const std::function<bool()>& load_one,
                  const std::function<void()>& check_candidate);
    /// False if it is damaged, which rank 0 warns of.
    bool load_checkpoint(const StateSource& needed, const Fill& fill);
    bool load_local(Backend& backend, const StateSource& needed);
    /// Opens the next candidate that verifies, or the local copies. Error, the same on all ranks:
    /// nothing is left.
    void open_next();
    /// Opens a candidate. Error, the same on all ranks: it is damaged.
    void open(std::size_t candidate);
    /// Call it while handling `damage`: rethrows it if it is final, otherwise warns (rank 0).
    void skip_damaged(const Error& damage);
    /// The Error when all candidates have been skipped.
    CommonError nothing_left() const;
    /// This rank's part of a manifest of version 1, from rank 0.
    Manifest part_from_first(const StateSource& needed) const;

    std::vector<std::filesystem::path> candidates_;  ///< on rank 0
    const MpiSession* ranks_;
    std::size_t count_;                  ///< of candidates
    std::size_t next_ = 0;               ///< next candidate to try
    std::size_t unread_ = 0;             ///< candidates that could not be read
    std::vector<LocalRestart> ahead_;    ///< copies to try, the next one last
    std::optional<LocalRestart> local_;  ///< if the run resumes from copies
    CopyTier tried_ = CopyTier::disk;    ///< of the latest copies
    std::filesystem::path folder_;
    CheckpointMeta meta_;
    AnyManifest manifest_;  ///< of version 2 on every rank, of version 1 on rank 0
};

}  // namespace gptrain
