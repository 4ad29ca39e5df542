#include "checkpoint/manifest_fields.h"

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/overlap.h"

namespace gptrain::manifest_fields {
namespace {

// Boxes of one tensor are compared pairwise; no mesh has as many.
constexpr std::size_t max_boxes = 1024;

std::uint32_t crc_from(std::int64_t value, std::string_view key, const std::string& source) {
    if (value < 0 || value > 0xffffffff) refuse(source, "'", key, "' is not a CRC-32C: ", value);
    return static_cast<std::uint32_t>(value);
}

std::vector<std::uint32_t> block_crcs_in(const JsonReader& reader, std::int64_t bytes,
                                         const std::string& source) {
    const std::vector<std::int64_t> values = reader.integers("crc32c");
    if (std::cmp_not_equal(values.size(), div_ceil(bytes, checkpoint_block_bytes))) {
        refuse(source, "'crc32c' has ", values.size(), " values for ", bytes, " bytes");
    }
    std::vector<std::uint32_t> crcs;
    crcs.reserve(values.size());
    for (const std::int64_t value : values)
        crcs.push_back(crc_from(value, "crc32c", source));
    return crcs;
}

FileRecord file_in(const Json& item, const std::string& source) {
    const JsonReader reader(item, source);
    reader.allow_only({"name", "bytes", "rest_crc32c"});
    FileRecord file{reader.string("name"), size_in(reader, "bytes", source),
                    crc_from(reader.integer("rest_crc32c"), "rest_crc32c", source)};
    check_name(file.name, source, "name");
    if (file.name == "manifest.json") refuse(source, "the manifest cannot list itself");
    return file;
}

/// Refuses ranges of one box that do not follow each other from its first element to its last.
void check_ranges(const std::vector<const ExtentRecord*>& extents, const std::string& source) {
    std::int64_t next = 0;
    for (const ExtentRecord* extent : extents) {
        if (extent->flat_begin != next) {
            refuse(source, "the ranges of a box overlap or leave a gap at element ", next);
        }
        next = extent->flat_end;
    }
    if (next != extents.front()->box.extent.elements()) refuse(source, "a box is not complete");
}

}  // namespace

void check_name(const std::string& name, const std::string& source, std::string_view key) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
    };
    const bool plain = !name.empty() && name.size() <= 255 && name.front() != '.' &&
                       std::all_of(name.begin(), name.end(), allowed);
    if (!plain) refuse(source, "'", key, "' is not a plain name");
}

std::int64_t size_in(const JsonReader& reader, std::string_view key, const std::string& source) {
    const std::int64_t value = reader.integer(key);
    if (value < 0 || value > largest_size) refuse(source, "'", key, "' is out of range: ", value);
    return value;
}

Shape shape_in(const JsonReader& reader, std::string_view key, std::int64_t smallest,
               const std::string& source) {
    const std::vector<std::int64_t> sizes = reader.integers(key);
    if (sizes.empty() || sizes.size() > Shape::max_rank) {
        refuse(source, "'", key, "' has ", sizes.size(), " dims, must have 1 to ", Shape::max_rank);
    }
    Shape shape;
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) {
        const bool fits =
            size >= smallest && size <= largest_size &&
            !__builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements) &&
            elements <= largest_size / size_of(DType::f32);
        if (!fits) refuse(source, "'", key, "' is out of range");
        shape.push_back(size);
    }
    return shape;
}

Box box_in(const JsonReader& reader, std::string_view offset_key, std::string_view extent_key,
           const Shape& shape, const std::string& source) {
    const Box box{shape_in(reader, offset_key, 0, source), shape_in(reader, extent_key, 1, source)};
    bool inside = box.offset.rank() == shape.rank() && box.extent.rank() == shape.rank();
    for (int dim = 0; inside && dim < shape.rank(); ++dim) {
        inside = box.offset[dim] + box.extent[dim] <= shape[dim];
    }
    if (!inside) refuse(source, "the box is outside the tensor ", shape.to_text());
    return box;
}

CheckpointMeta meta_in(const JsonReader& reader, const std::string& source) {
    if (reader.integer("block_bytes") != checkpoint_block_bytes) {
        refuse(source, "'block_bytes' must be ", checkpoint_block_bytes);
    }
    return {size_in(reader, "step", source), size_in(reader, "data_position", source),
            reader.string("spec_hash"), reader.object("identity"), reader.object("state")};
}

std::vector<FileRecord> files_in(const JsonReader& reader, const std::string& source) {
    std::vector<FileRecord> files;
    std::set<std::string> names;
    std::int64_t total = 0;
    for (const Json& item : reader.array("files")) {
        const std::string of_file = text(source, ": files[", files.size(), "]");
        files.push_back(file_in(item, of_file));
        const FileRecord& file = files.back();
        if (!names.insert(file.name).second) {
            refuse(of_file, "file '", file.name, "' is listed twice");
        }
        total += file.bytes;
        if (total > largest_size) refuse(of_file, "the files are too large: 'bytes'");
    }
    return files;
}

TensorRecord tensor_in(const JsonReader& reader, std::string& source) {
    TensorRecord tensor{reader.string("group"), reader.string("name"), {}, {}};
    check_name(tensor.group, source, "group");
    check_name(tensor.name, source, "name");
    source += text(" (", tensor.group, "/", tensor.name, ")");
    if (reader.string("dtype") != name_of(DType::f32)) refuse(source, "'dtype' must be fp32");
    tensor.shape = shape_in(reader, "shape", 1, source);
    return tensor;
}

ExtentRecord extent_in(const JsonReader& reader, const TensorRecord& tensor, const FileRecord& file,
                       const std::string& source) {
    ExtentRecord extent;
    extent.file = file.name;
    extent.byte_offset = size_in(reader, "byte_offset", source);
    extent.box = box_in(reader, "box_offset", "box_extent", tensor.shape, source);
    const std::vector<std::int64_t> flat = reader.integers("flat");
    const bool range = flat.size() == 2 && 0 <= flat[0] && flat[0] < flat[1] &&
                       flat[1] <= extent.box.extent.elements();
    if (!range) refuse(source, "'flat' is not a range of the box's elements");
    extent.flat_begin = flat[0];
    extent.flat_end = flat[1];
    if (reader.integer("bytes") != extent.bytes()) {
        refuse(source, "'bytes' must be ", extent.bytes());
    }
    if (extent.byte_offset + extent.bytes() > file.bytes) {
        refuse(source, "is outside '", file.name, "' (", file.bytes, " bytes)");
    }
    extent.crc32c = block_crcs_in(reader, extent.bytes(), source);
    return extent;
}

void check_boxes(std::vector<Box> boxes, std::int64_t elements, const std::string& source) {
    if (boxes.size() > max_boxes) refuse(source, "has more than ", max_boxes, " boxes");
    std::int64_t found = 0;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (intersect(boxes[i], boxes[j])) refuse(source, "two boxes overlap");
        }
        found += boxes[i].extent.elements();
    }
    if (found != elements) {
        refuse(source, "the boxes hold ", found, " of ", elements, " elements");
    }
}

void check_complete(const TensorRecord& tensor, const std::string& source) {
    const auto extents = extents_by_box(tensor);
    if (extents.size() > max_boxes) refuse(source, "has more than ", max_boxes, " boxes");
    std::vector<Box> boxes;
    for (const auto& of_box : extents) {
        check_ranges(of_box, source);
        boxes.push_back(of_box.front()->box);
    }
    check_boxes(std::move(boxes), tensor.shape.elements(), source);
}

void check_disjoint_in_files(const std::vector<TensorRecord>& tensors, const std::string& source) {
    struct Placed {
        std::string_view file;
        std::int64_t begin;
        std::int64_t end;
        std::string owner;
        auto operator<=>(const Placed&) const = default;
    };
    std::vector<Placed> placed;
    for (const TensorRecord& tensor : tensors) {
        for (const ExtentRecord& extent : tensor.extents) {
            placed.push_back({extent.file, extent.byte_offset, extent.byte_offset + extent.bytes(),
                              dataset_path(tensor, extent)});
        }
    }
    std::sort(placed.begin(), placed.end());
    for (std::size_t i = 1; i < placed.size(); ++i) {
        const Placed& before = placed[i - 1];
        if (before.file == placed[i].file && before.end > placed[i].begin) {
            refuse(source, before.owner, " and ", placed[i].owner, " overlap in '", before.file,
                   "'");
        }
    }
}

}  // namespace gptrain::manifest_fields
