#include "checkpoint/shard_record.h"

#include <algorithm>

#include "base/at.h"
#include "base/parallel_for.h"
#include "checkpoint/block.h"
#include "checkpoint/manifest_fields.h"

namespace gptrain {
namespace {

using namespace manifest_fields;

/// A record has about 100 bytes for each part of a tensor and 11 for each 4 MiB.
constexpr std::int64_t record_limit = std::int64_t{64} << 20;
/// Threads that read records: small files, each of which is a round trip to a file server.
constexpr int record_threads = 16;

std::string line(const TensorRecord& tensor) {
    Json extents = Json::array();
    for (const ExtentRecord& extent : tensor.extents) {
        extents.push_back({{"byte_offset", extent.byte_offset},
                           {"bytes", extent.bytes()},
                           {"box_offset", sizes(extent.box.offset)},
                           {"box_extent", sizes(extent.box.extent)},
                           {"flat", {extent.flat_begin, extent.flat_end}},
                           {"crc32c", extent.crc32c}});
    }
    return to_line({{"group", tensor.group},
                    {"name", tensor.name},
                    {"dtype", name_of(DType::f32)},
                    {"shape", sizes(tensor.shape)},
                    {"extents", std::move(extents)}});
}

/// Refuses a tensor whose entry in the index differs from the record's.
void check_listed(const TensorRecord& tensor, const TensorEntry* entry, const std::string& source) {
    const std::string name = text(tensor.group, "/", tensor.name);
    if (entry == nullptr || entry->shape != tensor.shape)
        refuse(source, name, " is not in the manifest with the shape ", tensor.shape.to_text());
    for (const ExtentRecord& extent : tensor.extents) {
        const bool listed =
            std::any_of(entry->boxes.begin(), entry->boxes.end(),
                        [&](const TensorBox& box) { return box.box == extent.box; });
        if (!listed) refuse(source, name, " has a box that is not in the manifest");
    }
}

/// Refuses ranges of one box that overlap.
void check_ranges_disjoint(const TensorRecord& tensor, const std::string& source) {
    for (const auto& extents : extents_by_box(tensor)) {
        for (std::size_t i = 1; i < extents.size(); ++i) {
            if (extents[i - 1]->flat_end > extents[i]->flat_begin) {
                refuse(source, "records have elements of ", tensor.group, "/", tensor.name,
                       " twice");
            }
        }
    }
}

/// The index with all its records.
Manifest with_all_records(const std::filesystem::path& folder, CheckpointIndex index) {
    std::set<std::int64_t> shards;
    for (const FileRecord& file : index.files)
        if (const auto shard = shard_number_of(file.name)) shards.insert(*shard);
    std::map<std::pair<std::string, std::string>, TensorRecord> records;
    for (TensorRecord& tensor : read_records(folder, index, shards))
        records.emplace(std::pair(tensor.group, tensor.name), std::move(tensor));
    Manifest manifest{std::move(index.meta), std::move(index.files), {}};
    for (const TensorEntry& entry : index.tensors) {
        const std::string name = text(entry.group, "/", entry.name);
        const auto found = records.find({entry.group, entry.name});
        if (found == records.end()) refuse(folder.string(), "no record has ", name);
        check_complete(found->second, text(folder.string(), ": ", name));
        manifest.tensors.push_back(std::move(found->second));
    }
    return manifest;
}

}  // namespace

std::string record_text(std::span<const TensorRecord> tensors) {
    std::string lines;
    for (const TensorRecord& tensor : tensors)
        lines += text(lines.empty() ? "\n" : ",\n", line(tensor));
    return text("{\n\"format\":\"gptrain shard\",\n\"version\":2,\n\"tensors\":[", lines, "\n]}\n");
}

std::vector<TensorRecord> parse_record(std::string_view json, const FileRecord& file,
                                       const std::string& source) {
    const Json root = parse_json(json, source);
    const JsonReader reader(root, source);
    if (reader.string("format") != "gptrain shard" || reader.integer("version") != 2)
        refuse(source, "'format' must be \"gptrain shard\" and 'version' 2");
    reader.allow_only({"format", "version", "tensors"});
    std::vector<TensorRecord> tensors;
    for (const Json& item : reader.array("tensors")) {
        std::string of_tensor = text(source, ": tensors[", tensors.size(), "]");
        const JsonReader members(item, of_tensor);
        members.allow_only({"group", "name", "dtype", "shape", "extents"});
        TensorRecord tensor = tensor_in(members, of_tensor);
        for (const Json& extent : members.array("extents")) {
            const std::string of_extent = text(of_tensor, ": extents[", tensor.extents.size(), "]");
            const JsonReader fields(extent, of_extent);
            fields.allow_only(
                {"byte_offset", "bytes", "box_offset", "box_extent", "flat", "crc32c"});
            tensor.extents.push_back(extent_in(fields, tensor, file, of_extent));
        }
        tensors.push_back(std::move(tensor));
    }
    check_disjoint_in_files(tensors, source);
    return tensors;
}

std::vector<TensorRecord> read_record(const std::filesystem::path& folder, const FileRecord& shard,
                                      const FileRecord& record) {
    return parse_record(read_whole(folder, record, record_limit), shard,
                        (folder / record.name).string());
}

IndexLookup::IndexLookup(const CheckpointIndex& index) {
    for (const FileRecord& file : index.files)
        files_.emplace(file.name, &file);
    for (const TensorEntry& tensor : index.tensors)
        tensors_.emplace(std::pair<std::string_view, std::string_view>(tensor.group, tensor.name),
                         &tensor);
}

const TensorEntry* IndexLookup::tensor(std::string_view group, std::string_view name) const {
    const auto found = tensors_.find({group, name});
    return found == tensors_.end() ? nullptr : found->second;
}

std::vector<TensorRecord> read_records(const std::filesystem::path& folder,
                                       const CheckpointIndex& index,
                                       const std::set<std::int64_t>& shards) {
    const IndexLookup lookup(index);
    const std::vector<std::int64_t> numbers(shards.begin(), shards.end());
    std::vector<std::vector<TensorRecord>> records(numbers.size());
    parallel_for(std::ssize(numbers), record_threads, [&](std::int64_t i) {
        const std::int64_t shard = at(numbers, i);
        const FileRecord& record = lookup.file(record_file_name(shard));
        auto& tensors = at(records, i);
        tensors = read_record(folder, lookup.file(shard_file_name(shard)), record);
        for (const TensorRecord& tensor : tensors)
            check_listed(tensor, lookup.tensor(tensor.group, tensor.name),
                         (folder / record.name).string());
    });
    std::vector<TensorRecord> all;
    for (std::vector<TensorRecord>& tensors : records)
        std::move(tensors.begin(), tensors.end(), std::back_inserter(all));
    all = merge_tensors(std::move(all));
    for (const TensorRecord& tensor : all)
        check_ranges_disjoint(tensor, folder.string());
    return all;
}

Manifest read_manifest(const std::filesystem::path& folder) {
    AnyManifest manifest = parse_any_manifest_of(folder, read_manifest_text(folder));
    if (auto* old = std::get_if<Manifest>(&manifest)) return std::move(*old);
    return with_all_records(folder, std::get<CheckpointIndex>(std::move(manifest)));
}

}  // namespace gptrain
