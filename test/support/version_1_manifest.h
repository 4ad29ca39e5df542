// Manifests of version 1, which older programs wrote: they hold what is now in the records.
#pragma once

#include <string>

#include "base/crc32c.h"
#include "base/json.h"
#include "checkpoint/manifest.h"

namespace gptrain::test {

inline Json version_1_json(const TensorRecord& tensor) {
    const auto sizes = [](const Shape& shape) {
        return Json(std::vector<std::int64_t>(shape.begin(), shape.end()));
    };
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
    return {{"group", tensor.group},
            {"name", tensor.name},
            {"dtype", name_of(DType::f32)},
            {"shape", sizes(tensor.shape)},
            {"extents", std::move(extents)}};
}

inline std::string version_1_text(const Manifest& manifest) {
    const CheckpointMeta& meta = manifest.meta;
    std::string out =
        text("{\n\"format\":\"gptrain checkpoint\",\n\"version\":1,\n\"step\":", meta.step,
             ",\n\"data_position\":", meta.data_position,
             ",\n\"spec_hash\":", to_line(Json(meta.spec_hash)),
             ",\n\"identity\":", to_line(meta.identity), ",\n\"state\":", to_line(meta.state),
             ",\n\"block_bytes\":", checkpoint_block_bytes, ",\n\"files\":[");
    const char* separator = "\n";
    for (const FileRecord& file : manifest.files) {
        out += separator +
               to_line(
                   {{"name", file.name}, {"bytes", file.bytes}, {"rest_crc32c", file.rest_crc32c}});
        separator = ",\n";
    }
    out += "\n],\n\"tensors\":[";
    separator = "\n";
    for (const TensorRecord& tensor : manifest.tensors) {
        out += separator + to_line(version_1_json(tensor));
        separator = ",\n";
    }
    out += "\n],\n";
    return out + text("\"crc32c\":", crc32c(out.data(), out.size()), "}\n");
}

}  // namespace gptrain::test
