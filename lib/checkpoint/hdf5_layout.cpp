#include "checkpoint/hdf5_layout.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <set>

#include "base/process.h"
#include "checkpoint/hdf5_attributes.h"
#include "checkpoint/hdf5_handle.h"
#include "checkpoint/hdf5_memory.h"

namespace gptrain {
namespace {

using Dims = std::array<hsize_t, Shape::max_rank>;

Dims dims_of(const Shape& shape) {
    Dims dims{};
    std::copy(shape.begin(), shape.end(), dims.begin());
    return dims;
}

/// An HDF5 file under construction, in memory. Its data are a hole.
class ScratchFile {
public:
    /// `name` is that of the finished file, for messages.
    explicit ScratchFile(const std::filesystem::path& name) : name_(name.string()) {
        // Without memory the library cannot even close its files.
        require_memory(std::int64_t{16} << 20);
        prepare_hdf5();
    }

    const std::string& name() const { return name_; }
    const SparseFile& bytes() const { return file_; }

    Hdf5Handle create() {
        // Checksummed headers, readable by HDF5 1.10 and later; objects of a page or more are
        // page-aligned.
        const Hdf5Handle access = access_list();
        check_hdf5(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110),
                   "H5Pset_libver_bounds", name_);
        check_hdf5(H5Pset_alignment(access, 4096, 4096), "H5Pset_alignment", name_);
        const Hdf5Handle creation = creation_list(H5P_FILE_CREATE);
        return {H5Fcreate(name_.c_str(), H5F_ACC_TRUNC, creation, access), H5Fclose, "H5Fcreate",
                name_};
    }
    Hdf5Handle open() {
        return {H5Fopen(name_.c_str(), H5F_ACC_RDONLY, access_list()), H5Fclose, "H5Fopen", name_};
    }
    void create_groups(hid_t file, const std::set<std::string>& groups) const {
        const Hdf5Handle creation = creation_list(H5P_GROUP_CREATE);
        for (const std::string& group : groups) {
            const Hdf5Handle handle(
                H5Gcreate2(file, group.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), H5Gclose,
                "H5Gcreate2", name_);
        }
    }
    /// A creation list without time stamps, so that equal contents give equal bytes.
    Hdf5Handle creation_list(hid_t kind) const {
        Hdf5Handle list(H5Pcreate(kind), H5Pclose, "H5Pcreate", name_);
        check_hdf5(H5Pset_obj_track_times(list, false), "H5Pset_obj_track_times", name_);
        return list;
    }
    Hdf5Handle space(const Shape& shape) const {
        return {H5Screate_simple(shape.rank(), dims_of(shape).data(), nullptr), H5Sclose,
                "H5Screate_simple", name_};
    }

private:
    Hdf5Handle access_list() {
        Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate", name_);
        keep_in_memory(access, file_, name_);
        check_hdf5(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG), "H5Pset_fclose_degree", name_);
        return access;
    }

    std::string name_;
    SparseFile file_;
};

std::string group_of(const std::string& dataset) {
    return dataset.substr(0, dataset.rfind('/'));
}

void write_attribute(const ScratchFile& scratch, hid_t dataset, const std::string& name,
                     const Shape& values) {
    const Hdf5Handle space = scratch.space({values.rank()});
    Hdf5Handle attribute(
        H5Acreate2(dataset, name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
        "H5Acreate2", scratch.name());
    check_hdf5(H5Awrite(attribute, H5T_NATIVE_INT64, values.begin()), "H5Awrite", scratch.name());
    attribute.close(scratch.name());
}

void create_contiguous(const ScratchFile& scratch, hid_t file,
                       std::span<const Hdf5Dataset> datasets) {
    const std::string& name = scratch.name();
    const Hdf5Handle creation = scratch.creation_list(H5P_DATASET_CREATE);
    check_hdf5(H5Pset_layout(creation, H5D_CONTIGUOUS), "H5Pset_layout", name);
    check_hdf5(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time", name);
    check_hdf5(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), "H5Pset_fill_time", name);
    for (const Hdf5Dataset& dataset : datasets) {
        Hdf5Handle handle(
            H5Dcreate2(file, dataset.path.c_str(), H5T_IEEE_F32LE, scratch.space(dataset.shape),
                       H5P_DEFAULT, creation, H5P_DEFAULT),
            H5Dclose, "H5Dcreate2", name);
        for (const auto& [key, values] : dataset.attributes) {
            write_attribute(scratch, handle, key, values);
        }
        handle.close(name);
    }
}

/// Offset of a dataset's data in the finished file.
std::int64_t data_offset(const ScratchFile& scratch, hid_t file, const Hdf5Dataset& dataset) {
    const Hdf5Handle handle(H5Dopen2(file, dataset.path.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2",
                            scratch.name());
    const haddr_t offset = H5Dget_offset(handle);
    const auto bytes = static_cast<hsize_t>(dataset.shape.elements() * size_of(DType::f32));
    if (offset == HADDR_UNDEF || H5Dget_storage_size(handle) != bytes) {
        fail(ExitCode::io, scratch.name(), ": HDF5 has no place for ", dataset.path);
    }
    return narrow<std::int64_t>(offset);
}

/// The parts of the file that are not dataset data.
std::vector<FilePiece> read_metadata(const SparseFile& file, std::span<const Hdf5Dataset> datasets,
                                     std::span<const std::int64_t> offsets) {
    std::vector<std::pair<std::int64_t, std::int64_t>> data;
    for (std::size_t i = 0; i < datasets.size(); ++i) {
        data.emplace_back(offsets[i],
                          offsets[i] + datasets[i].shape.elements() * size_of(DType::f32));
    }
    std::sort(data.begin(), data.end());
    data.emplace_back(file.size(), file.size());
    std::vector<FilePiece> metadata;
    std::int64_t at = 0;
    for (const auto& [begin, end] : data) {
        GPTRAIN_CHECK(begin >= at, "data overlap at byte ", begin);
        if (begin > at) {
            FilePiece piece{at, std::string(static_cast<std::size_t>(begin - at), '\0')};
            file.read_at(at, std::as_writable_bytes(std::span(piece.bytes)));
            metadata.push_back(std::move(piece));
        }
        at = end;
    }
    return metadata;
}

/// Calls `visit`, in ascending order, for boxes that together are the elements [begin, end) of a
/// box in row-major order; at most two for each dim.
void split_range(const Shape& extent, std::int64_t begin, std::int64_t end,
                 const std::function<void(const Box&)>& visit, Box box = {}) {
    const int dim = box.offset.rank();
    std::int64_t stride = 1;
    for (int inner = dim + 1; inner < extent.rank(); ++inner)
        stride *= extent[inner];
    while (begin < end) {
        Box part = box;
        part.offset.push_back(begin / stride);
        if (begin % stride == 0 && end - begin >= stride) {
            const std::int64_t rows = (end - begin) / stride;
            part.extent.push_back(rows);
            for (int inner = dim + 1; inner < extent.rank(); ++inner) {
                part.offset.push_back(0);
                part.extent.push_back(extent[inner]);
            }
            visit(part);
            begin += rows * stride;
        } else {
            const std::int64_t row_begin = begin / stride * stride;
            const std::int64_t stop = std::min(end, row_begin + stride);
            part.extent.push_back(1);
            split_range(extent, begin - row_begin, stop - row_begin, visit, part);
            begin = stop;
        }
    }
}

void select(hid_t space, const Shape& offset, const Shape& extent, const std::string& name) {
    check_hdf5(H5Sselect_hyperslab(space, H5S_SELECT_SET, dims_of(offset).data(), nullptr,
                                   dims_of(extent).data(), nullptr),
               "H5Sselect_hyperslab", name);
}

/// Maps one extent into the virtual dataset of that creation list.
void map_extent(const ScratchFile& scratch, hid_t creation, hid_t space, const TensorRecord& tensor,
                const ExtentRecord& extent) {
    const std::string& name = scratch.name();
    const std::string path = dataset_path(tensor, extent);
    if (extent.elements() == extent.box.extent.elements()) {
        select(space, extent.box.offset, extent.box.extent, name);
        check_hdf5(H5Pset_virtual(creation, space, extent.file.c_str(), path.c_str(),
                                  scratch.space(extent.box.extent)),
                   "H5Pset_virtual", name);
        return;
    }
    const Hdf5Handle source = scratch.space({extent.elements()});
    std::int64_t at = 0;
    split_range(extent.box.extent, extent.flat_begin, extent.flat_end, [&](const Box& part) {
        Shape offset = extent.box.offset;
        for (int dim = 0; dim < offset.rank(); ++dim)
            offset[dim] += part.offset[dim];
        select(space, offset, part.extent, name);
        const std::int64_t count = part.extent.elements();
        select(source, {at}, {count}, name);
        check_hdf5(H5Pset_virtual(creation, space, extent.file.c_str(), path.c_str(), source),
                   "H5Pset_virtual", name);
        at += count;
    });
}

void create_virtual(const ScratchFile& scratch, hid_t file, const TensorRecord& tensor) {
    const std::string& name = scratch.name();
    const Hdf5Handle creation = scratch.creation_list(H5P_DATASET_CREATE);
    const float hole = std::numeric_limits<float>::quiet_NaN();
    check_hdf5(H5Pset_fill_value(creation, H5T_NATIVE_FLOAT, &hole), "H5Pset_fill_value", name);
    const Hdf5Handle space = scratch.space(tensor.shape);
    for (const ExtentRecord& extent : tensor.extents) {
        map_extent(scratch, creation, space, tensor, extent);
    }
    check_hdf5(H5Sselect_all(space), "H5Sselect_all", name);
    Hdf5Handle dataset(H5Dcreate2(file, text("/", tensor.group, "/", tensor.name).c_str(),
                                  H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT),
                       H5Dclose, "H5Dcreate2", name);
    dataset.close(name);
}

}  // namespace

Hdf5Layout lay_out_datasets(const std::filesystem::path& path,
                            std::span<const Hdf5Dataset> datasets) {
    ScratchFile scratch(path);
    Hdf5Handle file = scratch.create();
    std::set<std::string> groups;
    for (const Hdf5Dataset& dataset : datasets)
        groups.insert(group_of(dataset.path));
    scratch.create_groups(file, groups);
    create_contiguous(scratch, file, datasets);
    file.close(scratch.name());

    Hdf5Layout layout;
    Hdf5Handle finished = scratch.open();
    for (const Hdf5Dataset& dataset : datasets) {
        layout.data_offsets.push_back(data_offset(scratch, finished, dataset));
    }
    finished.close(scratch.name());
    layout.bytes = scratch.bytes().size();
    layout.metadata = read_metadata(scratch.bytes(), datasets, layout.data_offsets);
    return layout;
}

std::string virtual_index(const std::filesystem::path& path, std::span<const TensorRecord> tensors,
                          const Json& attributes) {
    ScratchFile scratch(path);
    Hdf5Handle file = scratch.create();
    write_attributes(file, attributes, scratch.name());
    std::set<std::string> groups;
    for (const TensorRecord& tensor : tensors)
        groups.insert("/" + tensor.group);
    scratch.create_groups(file, groups);
    for (const TensorRecord& tensor : tensors)
        create_virtual(scratch, file, tensor);
    file.close(scratch.name());

    Hdf5Handle finished = scratch.open();
    for (const TensorRecord& tensor : tensors) {
        const std::string dataset_name = text("/", tensor.group, "/", tensor.name);
        const Hdf5Handle dataset(H5Dopen2(finished, dataset_name.c_str(), H5P_DEFAULT), H5Dclose,
                                 "H5Dopen2", scratch.name());
    }
    finished.close(scratch.name());
    std::string contents(static_cast<std::size_t>(scratch.bytes().size()), '\0');
    scratch.bytes().read_at(0, std::as_writable_bytes(std::span(contents)));
    return contents;
}

}  // namespace gptrain
