#include "checkpoint/manifest_part.h"

#include <set>

#include "checkpoint/overlap.h"
#include "checkpoint/shard_record.h"

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

namespace {

/// The shard files with parts of the boxes that `needed` has elements of.
void add_shards(const TensorEntry& tensor, const Shard& needed, std::set<std::int64_t>& shards) {
    for (const TensorBox& box : tensor.boxes) {
        if (!intersect(box.box, needed.box)) continue;
        for (const ShardRun& run : box.shards) {
            for (std::int64_t i = 0; i < run.count; ++i)
                shards.insert(run.first + i * run.step);
        }
    }
}

}  // namespace

Manifest read_part(const std::filesystem::path& folder, const CheckpointIndex& index,
                   std::span<const TensorRecord> needs) {
    const IndexLookup lookup(index);
    std::set<std::int64_t> shards;
    for (const TensorRecord& need : needs) {
        const TensorEntry* tensor = lookup.tensor(need.group, need.name);
        if (tensor != nullptr && tensor->shape == need.shape)
            add_shards(*tensor, shard_of(need, need.extents.front()), shards);
    }
    Manifest read{index.meta, index.files, read_records(folder, index, shards)};
    // Tensors of another shape are in the part, too, without extents.
    std::set<std::pair<std::string, std::string>> found;
    for (const TensorRecord& tensor : read.tensors)
        found.emplace(tensor.group, tensor.name);
    for (const TensorRecord& need : needs) {
        const TensorEntry* tensor = lookup.tensor(need.group, need.name);
        if (tensor != nullptr && found.emplace(need.group, need.name).second)
            read.tensors.push_back({tensor->group, tensor->name, tensor->shape, {}});
    }
    ShardRecords part = ManifestParts(read).part_for(needs);
    return {std::move(read.meta), std::move(part.files), std::move(part.tensors)};
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
    // A rank may hold several shards of one tensor: the part of a frozen one that it saves, and the
    // parts before and after it.
    std::map<Name, std::size_t> places;
    std::set<const ExtentRecord*> taken;
    for (const TensorRecord& need : needs) {
        const auto found = tensors_.find(Name(need.group, need.name));
        if (found == tensors_.end()) continue;
        const TensorRecord& tensor = *found->second;
        const auto [place, first] = places.emplace(found->first, part.tensors.size());
        if (first) part.tensors.push_back({tensor.group, tensor.name, tensor.shape, {}});
        if (tensor.shape != need.shape) continue;
        TensorRecord& record = part.tensors[place->second];
        const Shard needed = shard_of(need, need.extents.front());
        for (const ExtentRecord& extent : tensor.extents) {
            if (!may_overlap(needed, shard_of(tensor, extent))) continue;
            if (!taken.insert(&extent).second) continue;
            record.extents.push_back(extent);
            if (files.insert(extent.file).second) part.files.push_back(*files_.at(extent.file));
        }
    }
    return part;
}

}  // namespace gptrain
