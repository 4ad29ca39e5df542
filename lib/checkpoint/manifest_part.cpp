#include "checkpoint/manifest_part.h"

#include <set>

#include "checkpoint/overlap.h"

namespace gptrain {

std::vector<TensorRecord> needs_of(const StateSource& source) {
    std::vector<TensorRecord> needs;
    source([&](const NamedState& state) {
        const Shard& shard = state.shard;
        if (shard.elements() == 0) return;
        const ExtentRecord extent{shard.box, shard.flat_begin, shard.flat_end, {}, 0, {}};
        needs.push_back({std::string(state.group), shard.name, shard.global, {extent}});
    });
    return needs;
}

ManifestParts::ManifestParts(const Manifest& manifest) {
    for (const TensorRecord& tensor : manifest.tensors)
        tensors_.emplace(Name(tensor.group, tensor.name), &tensor);
    for (const FileRecord& file : manifest.files)
        files_.emplace(file.name, &file);
}

ShardRecords ManifestParts::part_for(std::span<const TensorRecord> needs) const {
    ShardRecords part;
    std::set<std::string_view> files;
    for (const TensorRecord& need : needs) {
        const auto found = tensors_.find(Name(need.group, need.name));
        if (found == tensors_.end()) continue;
        const TensorRecord& tensor = *found->second;
        TensorRecord& record =
            part.tensors.emplace_back(TensorRecord{tensor.group, tensor.name, tensor.shape, {}});
        if (tensor.shape != need.shape) continue;
        const Shard needed = shard_of(need, need.extents.front());
        for (const ExtentRecord& extent : tensor.extents) {
            if (!may_overlap(needed, shard_of(tensor, extent))) continue;
            record.extents.push_back(extent);
            if (files.insert(extent.file).second) part.files.push_back(*files_.at(extent.file));
        }
    }
    return part;
}

}  // namespace gptrain
