// Where a node keeps local copies of its ranks' state: a second set of checkpoints on the disks of
// the nodes, faster to write and read than the file server, which outlives the loss of any one
// node. Copies in memory are the same in a folder that is in the node's memory: faster still, and
// they outlive the process.
//
//   DIR/RUN/MESH/step-000500-COURSE/   one save of a course (LocalCourse)
//     copy-00003.bin     all that rank 3 holds, owned or not: fp32, little-endian, back to back
//     copy-00003.json    its record (shard_record.h)
//     copy-00003.manifest.json   a manifest (manifest.h) of the two, without tensors. It is written
//                        last: without it there is no copy of this rank.
// A node has the files of its own ranks, and of at most as many ranks of other nodes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "checkpoint/manifest.h"
#include "spec/run_plan.h"

namespace gptrain {

/// Where a node keeps copies, fastest first.
enum class CopyTier { memory, disk };
constexpr auto words_of(CopyTier) {
    return std::to_array<Word<CopyTier>>(
        {{CopyTier::memory, "copies in memory"}, {CopyTier::disk, "local copies"}});
}
/// The key of the folder in the run spec.
constexpr std::string_view key_of(CopyTier tier) {
    return tier == CopyTier::memory ? "checkpoint.memory" : "checkpoint.local";
}

/// The copies of one run on one node.
struct LocalFolder {
    std::filesystem::path run;  ///< DIR/RUN
    std::string mesh;           ///< a rank's state is another on another mesh
    int node = 0;               ///< an id of this node that all its ranks know
    CopyTier tier = CopyTier::disk;

    std::filesystem::path path() const { return run / mesh; }
};

/// The folder in `dir` of the run with this output directory.
LocalFolder local_folder(const std::filesystem::path& dir, const std::filesystem::path& output_dir,
                         const MeshShape& mesh, int node, CopyTier tier = CopyTier::disk);

/// Why this process can never write into `dir`, which need not exist yet. Empty if it can, or if
/// the disk has a fault, which may pass.
std::string why_never_writable(const std::filesystem::path& dir);

std::string copy_file_name(int rank);
std::string copy_record_name(int rank);
std::string copy_manifest_name(int rank);

/// "step-000500-COURSE", and the step in such a name.
std::string local_save_name(std::int64_t step, const std::string& course);
std::optional<std::int64_t> local_save_step(const std::string& name);

/// The saves that a run may continue from: those since its last start or rollback, and the one from
/// which that start continued. A run notes them in its output directory, because a node that was
/// offline may return with copies from a course that the run has since left.
struct LocalCourse {
    std::string id;    ///< unique; empty: copies of programs that had no courses
    std::string from;  ///< the name of the save that the course continued from, if any
    /// Saves of other tiers, from which a start continues if `from` does not help.
    std::vector<std::string> older = {};
    /// The last step that the start before the course had logged, if it had logged any.
    std::optional<std::int64_t> reached = {};

    bool includes(const std::string& save) const;
};
std::string new_course_id();
/// Lines of text, and back.
std::string to_text(const LocalCourse& course);
LocalCourse local_course(const std::string& text);

/// A rank's copy on this node, its manifest verified and its files there with the right sizes.
struct LocalCopy {
    std::string save;  ///< the name of the save's folder
    int rank = 0;
};

/// The copies in `folder`, without faulty ones.
std::vector<LocalCopy> list_copies(const LocalFolder& folder, int ranks);

/// A rank's part of a save. Error (bad_input): it is damaged or missing.
CheckpointIndex read_copy_manifest(const std::filesystem::path& save_folder, int rank);

/// The step of the newest save that a mesh other than the folder's made; 0 if there is none.
std::int64_t newest_save_of_other_meshes(const LocalFolder& folder);

/// Bytes of the run's copies on this node, of all meshes.
std::int64_t bytes_of_copies(const LocalFolder& folder);

/// Removes all saves but these, of all meshes. Warns of what cannot be removed.
void remove_other_saves(const LocalFolder& folder, const std::vector<std::string>& saves);

}  // namespace gptrain
