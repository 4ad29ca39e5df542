#include <algorithm>
#include <map>
#include <set>

#include "base/crc32c.h"
#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest_fields.h"
#include "checkpoint/shard_names.h"

namespace gptrain {
namespace {

using namespace manifest_fields;

/// A manifest's members, apart from what differs between versions.
class ManifestJson {
public:
    ManifestJson(std::string_view json, const std::string& source)
        : source_(source), root_(parse_json(json, source)), reader_(root_, source) {
        if (reader_.string("format") != "gptrain checkpoint") {
            refuse(source_, "'format' must be \"gptrain checkpoint\"");
        }
        version_ = reader_.integer("version");
        if (version_ != 1 && version_ != 2) {
            refuse(source_, "unsupported format version ", version_,
                   " (this program reads versions 1 and 2); use a newer program");
        }
        reader_.allow_only({"format", "version", "step", "data_position", "spec_hash", "identity",
                            "state", "block_bytes", "files", "tensors", "crc32c"});
        meta = meta_in(reader_, source_);
        files = files_in(reader_, source_);
    }

    ManifestJson(const ManifestJson&) = delete;
    ManifestJson& operator=(const ManifestJson&) = delete;

    std::int64_t version() const { return version_; }

    /// Calls visit(reader, tensor, source) for each tensor, still without boxes and extents.
    /// `parts` is the key that holds them.
    void for_each_tensor(std::string_view parts, const auto& visit) const {
        std::set<std::pair<std::string, std::string>> names;
        std::int64_t elements = 0;
        std::size_t index = 0;
        for (const Json& item : reader_.array("tensors")) {
            std::string source = text(source_, ": tensors[", index++, "]");
            const JsonReader reader(item, source);
            reader.allow_only({"group", "name", "dtype", "shape", parts});
            TensorRecord tensor = tensor_in(reader, source);
            if (!names.emplace(tensor.group, tensor.name).second) {
                refuse(source, "is listed twice");
            }
            elements += tensor.shape.elements();
            if (elements > largest_size) refuse(source, "the tensors are too large: 'shape'");
            visit(reader, std::move(tensor), source);
        }
    }

    CheckpointMeta meta;
    std::vector<FileRecord> files;

private:
    std::string source_;
    Json root_;
    JsonReader reader_;
    std::int64_t version_ = 0;
};

// ---- version 1 ----------------------------------------------------------------------------------

Manifest old_manifest(ManifestJson& json, const std::string& source) {
    Manifest manifest{std::move(json.meta), std::move(json.files), {}};
    std::map<std::string_view, const FileRecord*> files;
    for (const FileRecord& file : manifest.files)
        files.emplace(file.name, &file);
    json.for_each_tensor("extents", [&](const JsonReader& reader, TensorRecord tensor,
                                        const std::string& of_tensor) {
        for (const Json& item : reader.array("extents")) {
            const std::string of_extent = text(of_tensor, ": extents[", tensor.extents.size(), "]");
            const JsonReader extent(item, of_extent);
            extent.allow_only(
                {"file", "byte_offset", "bytes", "box_offset", "box_extent", "flat", "crc32c"});
            const auto file = files.find(extent.string("file"));
            if (file == files.end()) {
                refuse(of_extent, "'file' is not among the manifest's files");
            }
            tensor.extents.push_back(extent_in(extent, tensor, *file->second, of_extent));
        }
        check_complete(tensor, of_tensor);
        manifest.tensors.push_back(std::move(tensor));
    });
    check_disjoint_in_files(manifest.tensors, source);
    return manifest;
}

// ---- version 2 ----------------------------------------------------------------------------------

/// The shard files that are listed with their records.
std::set<std::int64_t> listed_shards(const std::vector<FileRecord>& files,
                                     const std::string& source) {
    std::set<std::int64_t> shards;
    std::set<std::int64_t> records;
    for (const FileRecord& file : files) {
        if (const auto shard = shard_number_of(file.name)) shards.insert(*shard);
        if (const auto shard = record_number_of(file.name)) records.insert(*shard);
    }
    if (shards != records)
        refuse(source,
               "'files' has shard files without records, or the other "
               "way around");
    return shards;
}

ShardRun run_in(const Json& item, const std::set<std::int64_t>& shards, const std::string& source) {
    const bool numbers = item.is_array() && item.size() == 3 &&
                         std::all_of(item.begin(), item.end(),
                                     [](const Json& number) { return number.is_number_integer(); });
    if (!numbers) refuse(source, "'shards' must contain [first, step, count]");
    const ShardRun run{item[0].get<std::int64_t>(), item[1].get<std::int64_t>(),
                       item[2].get<std::int64_t>()};
    const std::int64_t most = std::ssize(shards);
    const std::int64_t largest = most == 0 ? -1 : *shards.rbegin();
    bool known = run.first >= 0 && run.step >= 1 && run.count >= 1 && run.count <= most &&
                 run.first <= largest && run.step <= largest + 1;
    for (std::int64_t i = 0; known && i < run.count; ++i)
        known = shards.count(run.first + i * run.step) == 1;
    if (!known) refuse(source, "'shards' has shard files that are not among 'files'");
    return run;
}

TensorBox box_of(const Json& item, const Shape& shape, const std::set<std::int64_t>& shards,
                 const std::string& source) {
    const JsonReader reader(item, source);
    reader.allow_only({"offset", "extent", "shards"});
    TensorBox box{box_in(reader, "offset", "extent", shape, source), {}};
    for (const Json& run : reader.array("shards"))
        box.shards.push_back(run_in(run, shards, source));
    if (box.shards.empty()) refuse(source, "'shards' is empty");
    if (box.shards.size() > shards.size()) refuse(source, "'shards' has too many runs");
    return box;
}

CheckpointIndex index_in(ManifestJson& json, const std::string& source) {
    CheckpointIndex index{std::move(json.meta), std::move(json.files), {}};
    const std::set<std::int64_t> shards = listed_shards(index.files, source);
    json.for_each_tensor(
        "boxes", [&](const JsonReader& reader, TensorRecord tensor, const std::string& of_tensor) {
            TensorEntry entry{std::move(tensor.group), std::move(tensor.name), tensor.shape, {}};
            std::vector<Box> boxes;
            for (const Json& item : reader.array("boxes")) {
                entry.boxes.push_back(box_of(item, entry.shape, shards,
                                             text(of_tensor, ": boxes[", boxes.size(), "]")));
                boxes.push_back(entry.boxes.back().box);
            }
            check_boxes(std::move(boxes), entry.shape.elements(), of_tensor);
            index.tensors.push_back(std::move(entry));
        });
    return index;
}

// ---- both ---------------------------------------------------------------------------------------

void check_own_crc(std::string_view json, const std::string& source) {
    const std::size_t at = json.rfind("\n\"crc32c\":");
    if (at == std::string_view::npos)
        refuse(source, "is truncated: its last line must be its crc32c");
    const std::string_view covered = json.substr(0, at + 1);
    if (json.substr(at + 1) != text("\"crc32c\":", crc32c(covered.data(), covered.size()), "}\n")) {
        refuse(source, "is damaged: its CRC-32C does not match");
    }
}

}  // namespace

AnyManifest parse_any_manifest(std::string_view json, const std::string& source) {
    check_own_crc(json, source);
    ManifestJson members(json, source);
    if (members.version() == 1) return old_manifest(members, source);
    if (std::ssize(json) > manifest_limit)
        refuse(source, "has more than ", manifest_limit, " bytes");
    return index_in(members, source);
}

std::string read_manifest_text(const std::filesystem::path& folder) {
    return read_file(folder / "manifest.json", old_manifest_limit);
}

AnyManifest parse_any_manifest_of(const std::filesystem::path& folder, std::string_view text) {
    const std::string source = (folder / "manifest.json").string();
    AnyManifest manifest = parse_any_manifest(text, source);
    const std::int64_t held = std::visit([](const auto& any) { return any.meta.step; }, manifest);
    const auto step = checkpoint_step(folder.filename().string());
    if (step && *step != held) {
        refuse(source, "holds step ", held, ", but its folder is named after another step");
    }
    return manifest;
}

}  // namespace gptrain
