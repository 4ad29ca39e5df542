#include "checkpoint/manifest.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/checked.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "checkpoint/shard_names.h"

namespace gptrain {
namespace {

std::string line(const FileRecord& file) {
    return to_line({{"name", file.name}, {"bytes", file.bytes}, {"rest_crc32c", file.rest_crc32c}});
}

Json to_json(const TensorBox& box) {
    Json shards = Json::array();
    for (const ShardRun& run : box.shards)
        shards.push_back(Json::array({run.first, run.step, run.count}));
    return {{"offset", sizes(box.box.offset)},
            {"extent", sizes(box.box.extent)},
            {"shards", std::move(shards)}};
}

std::string line(const TensorEntry& tensor) {
    Json boxes = Json::array();
    for (const TensorBox& box : tensor.boxes)
        boxes.push_back(to_json(box));
    return to_line({{"group", tensor.group},
                    {"name", tensor.name},
                    {"dtype", name_of(DType::f32)},
                    {"shape", sizes(tensor.shape)},
                    {"boxes", std::move(boxes)}});
}

template <class Record>
std::string lines(const std::vector<Record>& records) {
    std::string out;
    for (const Record& record : records) {
        out += out.empty() ? "\n" : ",\n";
        out += line(record);
    }
    return out + "\n";
}

/// Appends a shard behind all others.
void append(std::vector<ShardRun>& runs, std::int64_t shard) {
    if (!runs.empty()) {
        ShardRun& last = runs.back();
        const std::int64_t step = last.count == 1 ? shard - last.first : last.step;
        if (step > 0 && shard == last.first + last.count * step) {
            last.step = step;
            ++last.count;
            return;
        }
    }
    runs.push_back({shard, 1, 1});
}

/// Appends the shards of a run behind all others.
void append(std::vector<ShardRun>& runs, const ShardRun& run) {
    if (run.count > 2 && !runs.empty()) {
        ShardRun& last = runs.back();
        const bool goes_on =
            last.step == run.step && run.first == last.first + last.count * run.step;
        if (last.count > 1 && goes_on) {
            last.count += run.count;
            return;
        }
    }
    for (std::int64_t i = 0; i < run.count; ++i)
        append(runs, run.first + i * run.step);
}

/// Appends the boxes of the same tensor in later shard files.
void append(std::vector<TensorBox>& boxes, std::vector<TensorBox> later) {
    for (TensorBox& box : later) {
        const auto same = std::find_if(boxes.begin(), boxes.end(), [&](const TensorBox& other) {
            return other.box.offset == box.box.offset && other.box.extent == box.box.extent;
        });
        if (same == boxes.end()) {
            boxes.push_back(std::move(box));
            continue;
        }
        for (const ShardRun& run : box.shards)
            append(same->shards, run);
    }
}

std::vector<TensorBox> boxes_of(const TensorRecord& tensor) {
    std::vector<TensorBox> boxes;
    for (const auto& extents : extents_by_box(tensor)) {
        TensorBox& box = boxes.emplace_back(TensorBox{extents.front()->box, {}});
        std::set<std::int64_t> known;
        for (const ExtentRecord* extent : extents) {
            const std::int64_t shard = shard_number(extent->file);
            if (known.insert(shard).second) append(box.shards, shard);
        }
    }
    return boxes;
}

}  // namespace

Json sizes(const Shape& shape) {
    return Json(std::vector<std::int64_t>(shape.begin(), shape.end()));
}

std::vector<TensorRecord> merge_tensors(std::vector<TensorRecord> parts) {
    std::vector<TensorRecord> merged;
    std::map<std::pair<std::string, std::string>, std::size_t> places;
    for (TensorRecord& part : parts) {
        const auto [place, is_new] = places.try_emplace({part.group, part.name}, merged.size());
        if (is_new) {
            merged.push_back(std::move(part));
            continue;
        }
        TensorRecord& whole = merged[place->second];
        GPTRAIN_CHECK(whole.shape == part.shape, whole.name, ": ranks differ in its shape");
        std::move(part.extents.begin(), part.extents.end(), std::back_inserter(whole.extents));
    }
    return merged;
}

std::vector<std::vector<const ExtentRecord*>> extents_by_box(const TensorRecord& tensor) {
    using Key = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;
    std::map<Key, std::vector<const ExtentRecord*>> boxes;
    for (const ExtentRecord& extent : tensor.extents) {
        const auto& [offset, size] = extent.box;
        boxes[{{offset.begin(), offset.end()}, {size.begin(), size.end()}}].push_back(&extent);
    }
    std::vector<std::vector<const ExtentRecord*>> result;
    for (auto& [key, extents] : boxes) {
        std::sort(extents.begin(), extents.end(),
                  [](const auto* a, const auto* b) { return a->flat_begin < b->flat_begin; });
        result.push_back(std::move(extents));
    }
    return result;
}

std::vector<TensorEntry> index_of(std::span<const TensorRecord> tensors) {
    std::vector<TensorEntry> entries;
    for (const TensorRecord& tensor : tensors)
        entries.push_back({tensor.group, tensor.name, tensor.shape, boxes_of(tensor)});
    return entries;
}

std::vector<TensorEntry> merge_entries(std::vector<TensorEntry> lower,
                                       std::vector<TensorEntry> higher) {
    std::map<std::pair<std::string, std::string>, std::size_t> places;
    for (std::size_t i = 0; i < lower.size(); ++i)
        places.emplace(std::pair(lower[i].group, lower[i].name), i);
    for (TensorEntry& entry : higher) {
        const auto place = places.find({entry.group, entry.name});
        if (place == places.end()) {
            lower.push_back(std::move(entry));
            continue;
        }
        TensorEntry& whole = lower[place->second];
        GPTRAIN_CHECK(whole.shape == entry.shape, whole.name, ": ranks differ in its shape");
        append(whole.boxes, std::move(entry.boxes));
    }
    return lower;
}

std::string dataset_path(const TensorRecord& tensor, const ExtentRecord& extent) {
    std::string path = text("/", tensor.group, "/", tensor.name);
    if (extent.elements() == extent.box.extent.elements()) return path;
    return text(path, "[", extent.flat_begin, ":", extent.flat_end, "]");
}

Shard shard_of(const TensorRecord& tensor, const ExtentRecord& extent) {
    return {tensor.name, tensor.shape, extent.box, extent.flat_begin, extent.flat_end, true};
}

const TensorRecord* Manifest::find(std::string_view group, std::string_view name) const {
    for (const TensorRecord& tensor : tensors) {
        if (tensor.group == group && tensor.name == name) return &tensor;
    }
    return nullptr;
}

const FileRecord* Manifest::find_file(std::string_view name) const {
    const auto found = std::ranges::find(files, name, &FileRecord::name);
    return found == files.end() ? nullptr : &*found;
}

std::int64_t Manifest::bytes() const {
    std::int64_t sum = 0;
    for (const FileRecord& file : files)
        sum = checked_add(sum, file.bytes);
    return sum;
}

std::int64_t Manifest::parameters() const {
    std::int64_t sum = 0;
    for (const TensorRecord& tensor : tensors) {
        if (tensor.group == "weight") sum = checked_add(sum, tensor.shape.elements());
    }
    return sum;
}

std::string to_text(const CheckpointIndex& index) {
    const CheckpointMeta& meta = index.meta;
    std::string out =
        text("{\n\"format\":\"gptrain checkpoint\",\n\"version\":2,\n\"step\":", meta.step,
             ",\n\"data_position\":", meta.data_position,
             ",\n\"spec_hash\":", to_line(Json(meta.spec_hash)),
             ",\n\"identity\":", to_line(meta.identity), ",\n\"state\":", to_line(meta.state),
             ",\n\"block_bytes\":", checkpoint_block_bytes, ",\n");
    out += text("\"files\":[", lines(index.files), "],\n");
    out += text("\"tensors\":[", lines(index.tensors), "],\n");
    return out + text("\"crc32c\":", crc32c(out.data(), out.size()), "}\n");
}

}  // namespace gptrain
