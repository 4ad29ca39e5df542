// A whole checkpoint with correct checksums, built from the input: shard files, with records or in
// version 1 without, and a manifest that cuts tensors into boxes and ranges. As built it is valid
// and must load, each element from its own place. Then one number or name may be made hostile, and
// the checkpoint may be refused.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "checkpoint/describe.h"
#include "checkpoint/load.h"
#include "checkpoint/manifest_part.h"
#include "checkpoint/restart_point.h"
#include "checkpoint/shard_record.h"
#include "fuzz/choices.h"
#include "fuzz/target.h"
#include "support/host_backend.h"
#include "support/sealed_manifest.h"
#include "support/temp_folder.h"
#include "support/version_1_manifest.h"

using namespace gptrain;
using test::Choices;

namespace {

constexpr int file_count = 2;
const std::string file_names[] = {"shard-00000.h5", "shard-00001.h5", "tokenizer.model"};
const std::string other_names[] = {
    "", ".", "..", "../x", "/etc/passwd", "a/b", "a\nb", "manifest.json", "...", "shard-00000.h5"};

struct Built {
    Manifest manifest;
    std::vector<std::string> contents;  ///< of each file
};

/// Cuts a box in two along random dims, repeatedly.
void cut_boxes(Choices& choices, const Box& box, int depth, std::vector<Box>& boxes) {
    const int dim = choices.up_to(box.extent.rank() - 1);
    if (depth == 0 || box.extent[dim] < 2 || !choices.yes()) {
        boxes.push_back(box);
        return;
    }
    const std::int64_t at = 1 + choices.up_to(static_cast<int>(box.extent[dim]) - 2);
    Box low = box;
    Box high = box;
    low.extent[dim] = at;
    high.offset[dim] += at;
    high.extent[dim] -= at;
    cut_boxes(choices, low, depth - 1, boxes);
    cut_boxes(choices, high, depth - 1, boxes);
}

/// Appends the extent's bytes to its file, which determines its offset.
void place(Choices& choices, Built& built, ExtentRecord extent, TensorRecord& tensor) {
    const auto file = static_cast<std::size_t>(choices.up_to(file_count - 1));
    std::string& contents = built.contents[file];
    contents.append(static_cast<std::size_t>(choices.up_to(9)), '#');
    extent.file = file_names[file];
    extent.byte_offset = std::ssize(contents);
    for (std::int64_t i = 0; i < extent.bytes(); ++i)
        contents += static_cast<char>(contents.size() * 37 + file);
    const auto bytes = static_cast<std::size_t>(extent.bytes());
    extent.crc32c = {crc32c(contents.data() + contents.size() - bytes, bytes)};
    tensor.extents.push_back(std::move(extent));
}

TensorRecord build_tensor(Choices& choices, Built& built, std::string group, std::string name) {
    TensorRecord tensor{std::move(group), std::move(name), {}, {}};
    const int rank = 1 + choices.up_to(2);
    for (int dim = 0; dim < rank; ++dim)
        tensor.shape.push_back(1 + choices.up_to(5));
    std::vector<Box> boxes;
    cut_boxes(choices, Shard::whole("", tensor.shape).box, 3, boxes);
    for (const Box& box : boxes) {
        const std::int64_t elements = box.extent.elements();
        for (std::int64_t begin = 0, end = 0; begin < elements; begin = end) {
            end = choices.yes() ? elements
                                : begin + 1 + choices.up_to(static_cast<int>(elements - begin) - 1);
            place(choices, built, {box, begin, end, "", 0, {}}, tensor);
        }
    }
    if (choices.yes()) std::reverse(tensor.extents.begin(), tensor.extents.end());
    return tensor;
}

/// The CRC-32C of a file's bytes outside of all extents.
std::uint32_t rest_crc(const Manifest& manifest, const std::string& name, std::string contents) {
    std::string rest;
    std::vector<bool> taken(contents.size());
    for (const TensorRecord& tensor : manifest.tensors)
        for (const ExtentRecord& extent : tensor.extents)
            for (std::int64_t i = 0; extent.file == name && i < extent.bytes(); ++i)
                taken[static_cast<std::size_t>(extent.byte_offset + i)] = true;
    for (std::size_t i = 0; i < contents.size(); ++i)
        if (!taken[i]) rest += contents[i];
    return crc32c(rest.data(), rest.size());
}

Built build(Choices& choices) {
    Built built{{{5, 40, "ab", Json::object(), Json::object()}, {}, {}}, {}};
    built.contents.resize(file_count);
    const std::string groups[] = {"weight", "exp_avg"};
    const int tensors = 1 + choices.up_to(2);
    for (int i = 0; i < tensors; ++i) {
        built.manifest.tensors.push_back(
            build_tensor(choices, built, choices.one_of(groups), text("t", i)));
    }
    for (std::size_t i = 0; i < built.contents.size(); ++i) {
        built.contents[i].append(static_cast<std::size_t>(choices.up_to(9)), '#');
        built.manifest.files.push_back(
            {file_names[i], std::ssize(built.contents[i]),
             rest_crc(built.manifest, file_names[i], built.contents[i])});
    }
    const std::string whole = text("of ", tensors, " tensors");
    built.contents.push_back(whole);
    built.manifest.files.push_back(
        {file_names[file_count], std::ssize(whole), crc32c(whole.data(), whole.size())});
    return built;
}

/// Replaces a number by an edge of 64 bits or by a number near it.
void make_hostile(Choices& choices, Json& number) {
    constexpr std::uint64_t bit = 1;
    constexpr std::uint64_t values[] = {0,         1,         ~bit,       bit << 31, bit << 32,
                                        bit << 60, bit << 61, bit << 62,  bit << 63, ~(bit << 63),
                                        0 - bit,   bit << 29, 1000000000, 4194304};
    const auto value = static_cast<std::uint64_t>(number.get<std::int64_t>());
    switch (choices.up_to(4)) {
        case 0: number = choices.one_of(values); break;
        case 1: number = static_cast<std::int64_t>(choices.one_of(values)); break;
        case 2: number = value + 1 + static_cast<std::uint64_t>(choices.up_to(7)); break;
        case 3: number = static_cast<std::int64_t>(value) - 1 - choices.up_to(7); break;
        default: number = static_cast<std::int64_t>(value * choices.one_of(values));
    }
}

Json& any_of(Choices& choices, Json& items) {
    return items[static_cast<std::size_t>(choices.up_to(static_cast<int>(items.size()) - 1))];
}

/// Changes one number of an extent, or duplicates it.
void damage_extent(Choices& choices, Json& extents) {
    Json& extent = any_of(choices, extents);
    switch (choices.up_to(6)) {
        case 0: make_hostile(choices, any_of(choices, extent["box_offset"])); break;
        case 1: make_hostile(choices, any_of(choices, extent["box_extent"])); break;
        case 2: make_hostile(choices, any_of(choices, extent["flat"])); break;
        case 3: make_hostile(choices, extent["byte_offset"]); break;
        case 4: make_hostile(choices, extent["bytes"]); break;
        case 5: make_hostile(choices, any_of(choices, extent["crc32c"])); break;
        default: extents.push_back(Json(extent));
    }
}

/// Changes one number of a box, or duplicates it.
void damage_box(Choices& choices, Json& boxes) {
    Json& box = any_of(choices, boxes);
    Json& run = any_of(choices, box["shards"]);
    switch (choices.up_to(4)) {
        case 0: make_hostile(choices, any_of(choices, box["offset"])); break;
        case 1: make_hostile(choices, any_of(choices, box["extent"])); break;
        case 2: make_hostile(choices, any_of(choices, run)); break;
        case 3: box["shards"].push_back(Json(run)); break;
        default: boxes.push_back(Json(box));
    }
}

/// Changes one number or name of a list of tensors, or duplicates an entry.
void damage_tensors(Choices& choices, Json& tensors) {
    if (tensors.empty()) return;
    Json& tensor = any_of(choices, tensors);
    switch (choices.up_to(5)) {
        case 0: make_hostile(choices, any_of(choices, tensor["shape"])); break;
        case 1: tensor["name"] = choices.one_of(other_names); break;
        case 2: tensors.push_back(Json(tensor)); break;
        default:
            if (tensor.contains("boxes")) {
                damage_box(choices, tensor["boxes"]);
            } else {
                damage_extent(choices, tensor["extents"]);
                Json& extent = any_of(choices, tensor["extents"]);
                if (choices.yes()) extent["file"] = choices.one_of(other_names);
            }
    }
}

/// Changes one number or name of a manifest, or duplicates an entry.
void damage_manifest(Choices& choices, Json& manifest) {
    Json& file = any_of(choices, manifest["files"]);
    switch (choices.up_to(9)) {
        case 0: make_hostile(choices, file["bytes"]); break;
        case 1: make_hostile(choices, file["rest_crc32c"]); break;
        case 2: make_hostile(choices, manifest["step"]); break;
        case 3: file["name"] = choices.one_of(other_names); break;
        default: damage_tensors(choices, manifest["tensors"]);
    }
}

/// A manifest's text with the checksum corrected after damage.
std::string damaged_manifest(Choices& choices, const std::string& valid) {
    Json json = parse_json(valid, "manifest.json");
    json.erase("crc32c");
    damage_manifest(choices, json);
    std::string body = to_line(json);
    body.back() = ',';
    return test::sealed(body + "\n");
}

/// The record of a shard file.
std::string record_of(const Built& built, const std::string& file) {
    std::vector<TensorRecord> tensors;
    for (TensorRecord tensor : built.manifest.tensors) {
        std::erase_if(tensor.extents,
                      [&](const ExtentRecord& extent) { return extent.file != file; });
        if (!tensor.extents.empty()) tensors.push_back(std::move(tensor));
    }
    return record_text(tensors);
}

/// Writes the records and returns the manifest.
std::string write_records(Choices& choices, const std::filesystem::path& folder, const Built& built,
                          bool damaged) {
    const Manifest& manifest = built.manifest;
    CheckpointIndex index{manifest.meta, manifest.files, index_of(manifest.tensors)};
    for (int shard = 0; shard < file_count; ++shard) {
        std::string record = record_of(built, file_names[shard]);
        if (damaged && choices.yes()) {
            Json json = parse_json(record, "record");
            damage_tensors(choices, json["tensors"]);
            record = to_line(json);
        }
        const std::string name = record_file_name(shard);
        test::fill(folder / name, record);
        index.files.push_back({name, std::ssize(record), crc32c(record.data(), record.size())});
    }
    return to_text(index);
}

/// The element's bits as the files hold them.
std::uint32_t stored(const Built& built, const TensorRecord& tensor, std::int64_t index) {
    for (const ExtentRecord& extent : tensor.extents) {
        const Shard shard = shard_of(tensor, extent);
        for (std::int64_t flat = extent.flat_begin; flat < extent.flat_end; ++flat) {
            if (shard.global_index(flat) != index) continue;
            const std::size_t file = extent.file == file_names[0] ? 0 : 1;
            std::uint32_t bits = 0;
            std::memcpy(
                &bits,
                built.contents[file].data() + extent.byte_offset + 4 * (flat - extent.flat_begin),
                sizeof bits);
            return bits;
        }
    }
    fail(ExitCode::bug, "element ", index, " is in no extent");
}

/// Loads a random part of each tensor and compares every element.
void load(Choices& choices, const std::filesystem::path& folder, const Built& built,
          const Manifest& manifest, const CheckpointIndex* index) {
    HostBackend backend;
    for (const TensorRecord& tensor : manifest.tensors) {
        Shard needed = Shard::whole(tensor.name, tensor.shape);
        std::vector<Box> boxes;
        cut_boxes(choices, needed.box, 2, boxes);
        needed.box =
            boxes[static_cast<std::size_t>(choices.up_to(static_cast<int>(boxes.size()) - 1))];
        const auto elements = static_cast<int>(needed.box.extent.elements());
        needed.flat_begin = choices.up_to(elements);
        needed.flat_end =
            needed.flat_begin + choices.up_to(elements - static_cast<int>(needed.flat_begin));
        std::vector<std::uint32_t> values(static_cast<std::size_t>(needed.elements()));
        const Tensor view(reinterpret_cast<std::byte*>(values.data()), DType::f32,
                          Shape{needed.elements()});
        const StateSource source = [&](const StateVisitor& visit) {
            visit({tensor.group, needed, view});
        };
        if (index == nullptr) {
            load_state(folder, manifest, backend, source);
        } else {
            load_state(folder, read_part(folder, *index, needs_of(source)), backend, source);
        }
        for (std::int64_t i = 0; i < needed.elements(); ++i) {
            GPTRAIN_CHECK(values[static_cast<std::size_t>(i)] ==
                          stored(built, tensor, needed.global_index(needed.flat_begin + i)));
        }
    }
}

/// Checks that the file without tensors is as written, unless a damaged manifest does not list it.
void read_whole_file(const std::filesystem::path& folder, const Built& built) {
    static const MpiSession alone;
    const auto checkpoint = RestartPoint::find({folder}, alone);
    const auto whole = checkpoint->whole_file(file_names[file_count], 1 << 20);
    GPTRAIN_CHECK(!whole || *whole == built.contents.back());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    Choices choices(bytes, size);
    const bool damaged = choices.yes();
    const Built built = build(choices);
    for (std::size_t i = 0; i < built.contents.size(); ++i)
        test::fill(folder / file_names[i], built.contents[i]);
    const bool old = choices.yes();
    const std::string valid = old ? test::version_1_text(built.manifest)
                                  : write_records(choices, folder.path(), built, damaged);
    const bool of_manifest = damaged && (old || choices.yes());
    test::fill(folder / "manifest.json", of_manifest ? damaged_manifest(choices, valid) : valid);
    const bool accepted = test::accepts(ExitCode::bad_input, folder.path().string(), [&] {
        describe_checkpoint(folder.path(), true);
        read_whole_file(folder.path(), built);
        const Manifest manifest = read_manifest(folder.path());
        const AnyManifest any =
            parse_any_manifest_of(folder.path(), read_manifest_text(folder.path()));
        load(choices, folder.path(), built, manifest, std::get_if<CheckpointIndex>(&any));
    });
    GPTRAIN_CHECK(accepted || damaged);
    return 0;
}
