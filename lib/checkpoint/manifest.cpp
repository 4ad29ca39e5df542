#include "checkpoint/manifest.h"

#include <algorithm>

#include "base/checked.h"
#include "base/crc32c.h"

namespace gptrain {
namespace {

Json sizes(const Shape& shape) {
    return Json(std::vector<std::int64_t>(shape.begin(), shape.end()));
}

std::string line(const FileRecord& file) {
    return to_line({{"name", file.name}, {"bytes", file.bytes}, {"rest_crc32c", file.rest_crc32c}});
}

std::string line(const TensorRecord& tensor) {
    Json extents = Json::array();
    for (const ExtentRecord& extent : tensor.extents) {
        extents.push_back({{"file", extent.file},
                           {"byte_offset", extent.byte_offset},
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

template <class Record>
std::string lines(const std::vector<Record>& records) {
    std::string out;
    for (const Record& record : records) {
        out += out.empty() ? "\n" : ",\n";
        out += line(record);
    }
    return out + "\n";
}

}  // namespace

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
    const auto found = std::find_if(files.begin(), files.end(),
                                    [&](const FileRecord& file) { return file.name == name; });
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

std::string to_text(const Manifest& manifest) {
    const CheckpointMeta& meta = manifest.meta;
    std::string out =
        text("{\n\"format\":\"gptrain checkpoint\",\n\"version\":1,\n\"step\":", meta.step,
             ",\n\"data_position\":", meta.data_position,
             ",\n\"spec_hash\":", to_line(Json(meta.spec_hash)),
             ",\n\"identity\":", to_line(meta.identity), ",\n\"state\":", to_line(meta.state),
             ",\n\"block_bytes\":", checkpoint_block_bytes, ",\n");
    out += text("\"files\":[", lines(manifest.files), "],\n");
    out += text("\"tensors\":[", lines(manifest.tensors), "],\n");
    return out + text("\"crc32c\":", crc32c(out.data(), out.size()), "}\n");
}

}  // namespace gptrain
