#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/crc32c.h"
#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/overlap.h"

namespace gptrain {
namespace {

// Two sizes within this bound add up without overflow.
constexpr std::int64_t largest_size = std::int64_t{1} << 60;
// Boxes of one tensor are compared pairwise; no mesh has as many.
constexpr std::size_t max_boxes = 1024;

[[noreturn]] void refuse(const std::string& source, const auto&... parts) {
    fail(ExitCode::bad_input, source, ": ", parts...);
}

/// Names become file names and HDF5 names: no separators, and nothing outside the folder.
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

std::uint32_t crc_from(std::int64_t value, std::string_view key, const std::string& source) {
    if (value < 0 || value > 0xffffffff) refuse(source, "'", key, "' is not a CRC-32C: ", value);
    return static_cast<std::uint32_t>(value);
}

/// A shape whose size in bytes is at most largest_size.
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

Box box_in(const JsonReader& reader, const Shape& shape, const std::string& source) {
    const Box box{shape_in(reader, "box_offset", 0, source),
                  shape_in(reader, "box_extent", 1, source)};
    bool inside = box.offset.rank() == shape.rank() && box.extent.rank() == shape.rank();
    for (int dim = 0; inside && dim < shape.rank(); ++dim) {
        inside = box.offset[dim] + box.extent[dim] <= shape[dim];
    }
    if (!inside) refuse(source, "the box is outside the tensor ", shape.to_text());
    return box;
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

class ManifestParser {
public:
    ManifestParser(std::string_view json, const std::string& source)
        : source_(source), root_(parse_json(json, source)), reader_(root_, source) {}

    Manifest parse() {
        check_header();
        read_meta();
        for (const Json& item : reader_.array("files"))
            read_file_record(item);
        for (const Json& item : reader_.array("tensors"))
            read_tensor(item);
        check_extents_disjoint_in_files();
        return std::move(manifest_);
    }

private:
    struct Placed {
        std::string file;
        std::int64_t begin;
        std::int64_t end;
        std::string owner;
        auto operator<=>(const Placed&) const = default;
    };

    void check_header() const {
        if (reader_.string("format") != "gptrain checkpoint") {
            refuse(source_, "'format' must be \"gptrain checkpoint\"");
        }
        if (reader_.integer("version") != 1) {
            refuse(source_, "unsupported format version ", reader_.integer("version"),
                   " (this program reads version 1); use a newer program");
        }
        reader_.allow_only({"format", "version", "step", "data_position", "spec_hash", "identity",
                            "state", "block_bytes", "files", "tensors", "crc32c"});
        if (reader_.integer("block_bytes") != checkpoint_block_bytes) {
            refuse(source_, "'block_bytes' must be ", checkpoint_block_bytes);
        }
    }

    void read_meta() {
        manifest_.meta = {size_in(reader_, "step", source_),
                          size_in(reader_, "data_position", source_), reader_.string("spec_hash"),
                          reader_.object("identity"), reader_.object("state")};
    }

    void read_file_record(const Json& item) {
        const std::string source = text(source_, ": files[", manifest_.files.size(), "]");
        const JsonReader reader(item, source);
        reader.allow_only({"name", "bytes", "rest_crc32c"});
        const FileRecord file{reader.string("name"), size_in(reader, "bytes", source),
                              crc_from(reader.integer("rest_crc32c"), "rest_crc32c", source)};
        check_name(file.name, source, "name");
        if (file.name == "manifest.json") refuse(source, "the manifest cannot list itself");
        if (!file_bytes_.emplace(file.name, file.bytes).second) {
            refuse(source, "file '", file.name, "' is listed twice");
        }
        total_bytes_ += file.bytes;
        if (total_bytes_ > largest_size) refuse(source, "the files are too large: 'bytes'");
        manifest_.files.push_back(file);
    }

    void read_tensor(const Json& item) {
        std::string source = text(source_, ": tensors[", manifest_.tensors.size(), "]");
        const JsonReader reader(item, source);
        reader.allow_only({"group", "name", "dtype", "shape", "extents"});
        TensorRecord tensor{reader.string("group"), reader.string("name"), {}, {}};
        check_name(tensor.group, source, "group");
        check_name(tensor.name, source, "name");
        source += text(" (", tensor.group, "/", tensor.name, ")");
        if (!tensors_.emplace(tensor.group, tensor.name).second) refuse(source, "is listed twice");
        if (reader.string("dtype") != name_of(DType::f32)) refuse(source, "'dtype' must be fp32");
        tensor.shape = shape_in(reader, "shape", 1, source);
        total_elements_ += tensor.shape.elements();
        if (total_elements_ > largest_size) refuse(source, "the tensors are too large: 'shape'");
        for (const Json& extent : reader.array("extents")) {
            tensor.extents.push_back(read_extent(
                extent, tensor, text(source, ": extents[", tensor.extents.size(), "]")));
        }
        check_complete(tensor, source);
        manifest_.tensors.push_back(std::move(tensor));
    }

    ExtentRecord read_extent(const Json& item, const TensorRecord& tensor,
                             const std::string& source) {
        const JsonReader reader(item, source);
        reader.allow_only(
            {"file", "byte_offset", "bytes", "box_offset", "box_extent", "flat", "crc32c"});
        ExtentRecord extent;
        extent.file = reader.string("file");
        extent.byte_offset = size_in(reader, "byte_offset", source);
        extent.box = box_in(reader, tensor.shape, source);
        const std::vector<std::int64_t> flat = reader.integers("flat");
        const bool range = flat.size() == 2 && 0 <= flat[0] && flat[0] < flat[1] &&
                           flat[1] <= extent.box.extent.elements();
        if (!range) refuse(source, "'flat' is not a range of the box's elements");
        extent.flat_begin = flat[0];
        extent.flat_end = flat[1];
        if (reader.integer("bytes") != extent.bytes()) {
            refuse(source, "'bytes' must be ", extent.bytes());
        }
        const auto file = file_bytes_.find(extent.file);
        if (file == file_bytes_.end()) refuse(source, "'file' is not among the manifest's files");
        if (extent.byte_offset + extent.bytes() > file->second) {
            refuse(source, "is outside '", extent.file, "' (", file->second, " bytes)");
        }
        extent.crc32c = block_crcs_in(reader, extent.bytes(), source);
        placed_.push_back({extent.file, extent.byte_offset, extent.byte_offset + extent.bytes(),
                           dataset_path(tensor, extent)});
        return extent;
    }

    /// Every element exactly once: ranges of one box are consecutive, boxes are disjoint, and
    /// together they have as many elements as the tensor.
    static void check_complete(const TensorRecord& tensor, const std::string& source) {
        using Key = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;
        std::map<Key, std::vector<const ExtentRecord*>> boxes;
        for (const ExtentRecord& extent : tensor.extents) {
            const auto& [offset, size] = extent.box;
            boxes[{{offset.begin(), offset.end()}, {size.begin(), size.end()}}].push_back(&extent);
        }
        if (boxes.size() > max_boxes) refuse(source, "has more than ", max_boxes, " boxes");
        std::int64_t elements = 0;
        std::vector<const Box*> seen;
        for (auto& [key, extents] : boxes) {
            std::sort(extents.begin(), extents.end(),
                      [](const auto* a, const auto* b) { return a->flat_begin < b->flat_begin; });
            std::int64_t next = 0;
            for (const ExtentRecord* extent : extents) {
                if (extent->flat_begin != next) {
                    refuse(source, "the ranges of a box overlap or leave a gap at element ", next);
                }
                next = extent->flat_end;
            }
            const Box& box = extents.front()->box;
            if (next != box.extent.elements()) refuse(source, "a box is not complete");
            for (const Box* other : seen) {
                if (intersect(box, *other)) refuse(source, "two boxes overlap");
            }
            seen.push_back(&box);
            elements += next;
        }
        if (elements != tensor.shape.elements()) {
            refuse(source, "the boxes hold ", elements, " of ", tensor.shape.elements(),
                   " elements");
        }
    }

    void check_extents_disjoint_in_files() {
        std::sort(placed_.begin(), placed_.end());
        for (std::size_t i = 1; i < placed_.size(); ++i) {
            const Placed& before = placed_[i - 1];
            if (before.file == placed_[i].file && before.end > placed_[i].begin) {
                refuse(source_, before.owner, " and ", placed_[i].owner, " overlap in '",
                       before.file, "'");
            }
        }
    }

    std::string source_;
    Json root_;
    JsonReader reader_;
    Manifest manifest_;
    std::map<std::string, std::int64_t> file_bytes_;
    std::int64_t total_bytes_ = 0;
    std::int64_t total_elements_ = 0;
    std::set<std::pair<std::string, std::string>> tensors_;
    std::vector<Placed> placed_;
};

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

Manifest parse_manifest(std::string_view json, const std::string& source) {
    check_own_crc(json, source);
    return ManifestParser(json, source).parse();
}

Manifest read_manifest(const std::filesystem::path& folder) {
    constexpr std::int64_t limit = std::int64_t{256} << 20;
    const std::filesystem::path path = folder / "manifest.json";
    Manifest manifest = parse_manifest(read_file(path, limit), path.string());
    const auto step = checkpoint_step(folder.filename().string());
    if (step && *step != manifest.meta.step) {
        refuse(path.string(), "holds step ", manifest.meta.step,
               ", but its folder is named after another step");
    }
    return manifest;
}

}  // namespace gptrain
