#include "checkpoint/write_checkpoint.h"

#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/shard_file.h"

namespace gptrain {

std::int64_t write_checkpoint(const std::filesystem::path& folder, const CheckpointMeta& meta,
                              const WeightsToWrite& weights) {
    const TemporaryFolder temporary(folder.parent_path(), folder.filename().string());
    std::vector<HeldState> owned;
    for (const Shard& tensor : weights.tensors)
        owned.push_back({"weight", tensor, {}});
    const ShardLayout layout = plan_shard_file(folder, 0, owned);
    const std::string index =
        virtual_index(folder / model_index_name, layout.tensors, weights.model);
    std::vector<WholeFile> files = {{model_index_name, index}};
    files.insert(files.end(), weights.files.begin(), weights.files.end());
    File shard = create_reserved(temporary.path() / layout.file, layout.hdf5.bytes);
    for (const auto& [name, contents] : files)
        write_whole(create_reserved(temporary.path() / name, std::ssize(contents)), contents);
    const std::vector<TensorEntry> entries = index_of(layout.tensors);
    return commit_checkpoint(meta, temporary.path(),
                             {write_shard(std::move(shard), layout, weights.blocks), entries},
                             files, folder);
}

}  // namespace gptrain
