// Where a node keeps local copies of its ranks' state: a second set of checkpoints on the disks of
// the nodes, faster to write and read than the file server, which outlives the loss of any one
// node.
//
//   DIR/RUN/MESH/step-000500-SAVE/   one save; SAVE is unique
//     copy-00003.bin     all that rank 3 holds, owned or not: fp32, little-endian, back to back
//     copy-00003.json    its record (shard_record.h)
//     copy-00003.manifest.json   a manifest (manifest.h) of the two, without tensors. It is written
//                        last: without it there is no copy of this rank.
// A node has the files of its own ranks and those of as many ranks of another node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "spec/run_plan.h"

namespace gptrain {

/// The copies of one run on one node.
struct LocalFolder {
    std::filesystem::path run;  ///< DIR/RUN
    std::string mesh;           ///< a rank's state is another on another mesh
    int node = 0;               ///< an id of this node that all its ranks know

    std::filesystem::path path() const { return run / mesh; }
};

/// The folder in `dir` of the run with this output directory.
LocalFolder local_folder(const std::filesystem::path& dir, const std::filesystem::path& output_dir,
                         const MeshShape& mesh, int node);

std::string copy_file_name(int rank);
std::string copy_record_name(int rank);
std::string copy_manifest_name(int rank);

/// "step-000500-SAVE", and the step in such a name.
std::string local_save_name(std::int64_t step, const std::string& save);
std::optional<std::int64_t> local_save_step(const std::string& name);

/// A rank's copy on this node, its manifest verified and its files there with the right sizes.
struct LocalCopy {
    std::string save;  ///< the name of the save's folder
    int rank = 0;
};

/// The copies in `folder`; those that are faulty are not among them.
std::vector<LocalCopy> list_copies(const LocalFolder& folder, int ranks);

/// A rank's part of a save. Error (bad_input): it is damaged or missing.
CheckpointIndex read_copy_manifest(const std::filesystem::path& save_folder, int rank);

// Both concern all meshes, and warn of what cannot be removed.
/// Removes the saves of steps after `step`: they belong to a branch that the run has left.
void remove_saves_after(const LocalFolder& folder, std::int64_t step);
/// Removes all saves but one.
void remove_other_saves(const LocalFolder& folder, const std::string& save);

}  // namespace gptrain
