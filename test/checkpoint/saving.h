// Saves made-up states, either with the saver or rank by rank as several processes would.
#pragma once

#include "base/temporary_file.h"
#include "checkpoint/folder.h"
#include "checkpoint/hdf5_layout.h"
#include "checkpoint/load.h"
#include "checkpoint/saver.h"
#include "checkpoint/shard_record.h"
#include "checkpoint/verify.h"
#include "mesh_state.h"
#include "support/host_backend.h"
#include "support/version_1_manifest.h"

namespace gptrain::test {

inline CheckpointMeta meta_for(std::int64_t step) {
    return {step, 8 * step, "a1b2c3", Json{{"seed", 1234}, {"model", {{"layers", 2}}}},
            Json{{"loss_scale", 65536.0}, {"updates", step}}};
}

/// One rank's state, a saver for it, and memory for its snapshot.
struct SavingRun {
    explicit SavingRun(Retention retention, bool async = true,
                       const std::vector<TestTensor>& tensors = small_tensors(),
                       std::vector<WholeFile> files = {}, Json model = Json::object())
        : state({}, 0, tensors),
          arena(backend, MemorySpace::host, "snapshot", std::int64_t{256} << 20),
          saver(backend, arena, alone,
                {std::move(retention), async, std::move(files), std::move(model)}) {}

    void save(std::int64_t step) {
        state.fill(step);
        saver.save(meta_for(step), state.source());
    }

    HostBackend backend;
    RankState state;
    Arena arena;
    MpiSession alone;  ///< no launcher started this process
    CheckpointSaver saver;
};

/// Writes a checkpoint as the ranks of a mesh do: each rank its shard file and record, rank 0 the
/// rest.
inline std::filesystem::path save_mesh(const std::filesystem::path& folder, const TestMesh& mesh,
                                       std::int64_t step) {
    const TemporaryFolder temporary(folder, checkpoint_name(step));
    std::vector<FileRecord> files;
    std::vector<TensorRecord> tensors;
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
        RankState state(mesh, rank);
        state.fill(step);
        const std::vector<HeldState> owned = owned_state(state.source());
        const ShardLayout layout = plan_shard_file(temporary.path(), rank, owned);
        File file = create_reserved(temporary.path() / layout.file, layout.hdf5.bytes);
        for (FileRecord& written :
             write_shard(std::move(file), layout, blocks_of(values_of(owned))))
            files.push_back(std::move(written));
        tensors.insert(tensors.end(), layout.tensors.begin(), layout.tensors.end());
    }
    tensors = merge_tensors(std::move(tensors));
    const std::string index =
        virtual_index(temporary.path() / model_index_name, tensors, Json::object());
    const WholeFile whole = {model_index_name, index};
    write_whole(create_reserved(temporary.path() / model_index_name, std::ssize(index)), index);
    const std::vector<TensorEntry> entries = index_of(tensors);
    const auto final_path = folder / checkpoint_name(step);
    commit_checkpoint(meta_for(step), temporary.path(), {std::move(files), entries}, {&whole, 1},
                      final_path);
    return final_path;
}

/// Makes a checkpoint one of version 1.
inline void make_version_1(const std::filesystem::path& checkpoint) {
    Manifest manifest = read_manifest(checkpoint);
    std::erase_if(manifest.files, [&](const FileRecord& file) {
        const bool is_record = record_number_of(file.name).has_value();
        if (is_record) std::filesystem::remove(checkpoint / file.name);
        return is_record;
    });
    write_file_durably(checkpoint / "manifest.json", version_1_text(manifest));
}

/// Loads the state on every rank of a mesh and compares every bit.
inline bool loads(const std::filesystem::path& checkpoint, const TestMesh& mesh, std::int64_t step,
                  const std::vector<TestTensor>& tensors = small_tensors(),
                  bool host_memory = true) {
    HostBackend backend;
    backend.host_memory = host_memory;
    const Manifest manifest = read_manifest(checkpoint);
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
        RankState state(mesh, rank, tensors);
        load_state(checkpoint, manifest, backend, state.source());
        if (!state.holds(step)) return false;
    }
    return true;
}

/// The message of the Error that `action` throws; empty if it throws none.
inline std::string error_of(const auto& action, ExitCode code = ExitCode::bad_input) {
    try {
        action();
    } catch (const Error& error) {
        return error.code() == code ? error.what() : text("wrong code: ", error.what());
    }
    return {};
}

}  // namespace gptrain::test
