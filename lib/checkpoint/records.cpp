#include "checkpoint/records.h"

#include <iterator>

#include "base/json.h"

namespace gptrain {
namespace {

Shape shape_from(const Json& sizes) {
    Shape shape;
    for (const Json& size : sizes)
        shape.push_back(size.get<std::int64_t>());
    return shape;
}

Json to_json(const ExtentRecord& extent) {
    return Json::array({sizes(extent.box.offset), sizes(extent.box.extent), extent.flat_begin,
                        extent.flat_end, extent.file, extent.byte_offset, extent.crc32c});
}

ExtentRecord extent_from(const Json& json) {
    return {.box = {shape_from(json.at(0)), shape_from(json.at(1))},
            .flat_begin = json.at(2).get<std::int64_t>(),
            .flat_end = json.at(3).get<std::int64_t>(),
            .file = json.at(4).get<std::string>(),
            .byte_offset = json.at(5).get<std::int64_t>(),
            .crc32c = json.at(6).get<std::vector<std::uint32_t>>()};
}

Json to_json(const TensorRecord& tensor) {
    Json extents = Json::array();
    for (const ExtentRecord& extent : tensor.extents)
        extents.push_back(to_json(extent));
    return Json::array({tensor.group, tensor.name, sizes(tensor.shape), std::move(extents)});
}

TensorRecord tensor_from(const Json& json) {
    TensorRecord tensor = {
        json.at(0).get<std::string>(), json.at(1).get<std::string>(), shape_from(json.at(2)), {}};
    for (const Json& extent : json.at(3))
        tensor.extents.push_back(extent_from(extent));
    return tensor;
}

template <class T>
void append(std::vector<T>& to, std::vector<T> from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

std::string to_message(const ShardRecords& records) {
    Json files = Json::array();
    for (const FileRecord& file : records.files)
        files.push_back(Json::array({file.name, file.bytes, file.rest_crc32c}));
    Json tensors = Json::array();
    for (const TensorRecord& tensor : records.tensors)
        tensors.push_back(to_json(tensor));
    return Json::array({std::move(files), std::move(tensors)}).dump();
}

ShardRecords from_message(const std::string& message) {
    const Json json = parse_json(message, "the records of a rank's file");
    ShardRecords records;
    for (const Json& file : json.at(0)) {
        records.files.push_back({file.at(0).get<std::string>(), file.at(1).get<std::int64_t>(),
                                 file.at(2).get<std::uint32_t>()});
    }
    for (const Json& tensor : json.at(1))
        records.tensors.push_back(tensor_from(tensor));
    return records;
}

std::string to_message(std::span<const TensorEntry> entries) {
    Json json = Json::array();
    for (const TensorEntry& entry : entries) {
        Json boxes = Json::array();
        for (const TensorBox& box : entry.boxes) {
            Json runs = Json::array();
            for (const ShardRun& run : box.shards)
                runs.push_back(Json::array({run.first, run.step, run.count}));
            boxes.push_back(
                Json::array({sizes(box.box.offset), sizes(box.box.extent), std::move(runs)}));
        }
        json.push_back(
            Json::array({entry.group, entry.name, sizes(entry.shape), std::move(boxes)}));
    }
    return json.dump();
}

std::vector<TensorEntry> entries_from_message(const std::string& message) {
    std::vector<TensorEntry> entries;
    for (const Json& json : parse_json(message, "the tensors of some ranks")) {
        TensorEntry entry = {json.at(0).get<std::string>(),
                             json.at(1).get<std::string>(),
                             shape_from(json.at(2)),
                             {}};
        for (const Json& part : json.at(3)) {
            TensorBox box = {{shape_from(part.at(0)), shape_from(part.at(1))}, {}};
            for (const Json& run : part.at(2))
                box.shards.push_back({run.at(0).get<std::int64_t>(), run.at(1).get<std::int64_t>(),
                                      run.at(2).get<std::int64_t>()});
            entry.boxes.push_back(std::move(box));
        }
        entries.push_back(std::move(entry));
    }
    return entries;
}

std::string to_message(const CheckpointMeta& meta) {
    return Json::array({meta.step, meta.data_position, meta.spec_hash, meta.identity, meta.state})
        .dump();
}

CheckpointMeta meta_from_message(const std::string& message) {
    const Json json = parse_json(message, "checkpoint metadata");
    return {json.at(0).get<std::int64_t>(), json.at(1).get<std::int64_t>(),
            json.at(2).get<std::string>(), json.at(3), json.at(4)};
}

ShardRecords merged(const std::vector<std::string>& messages) {
    ShardRecords all;
    for (const std::string& message : messages) {
        ShardRecords one = from_message(message);
        append(all.files, std::move(one.files));
        append(all.tensors, std::move(one.tensors));
    }
    all.tensors = merge_tensors(std::move(all.tensors));
    return all;
}

}  // namespace gptrain
