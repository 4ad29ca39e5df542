// The structure of HDF5 files, as bytes. The library works on a small sparse file of its own,
// closes it, opens it again to see that all is there (on a full disk HDF5 1.10 can lose what it
// reported written), and the bytes are taken from there. Its errors become one line. HDF5 must run
// on one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"

namespace gptrain {

/// A contiguous dataset of little-endian fp32, with its place in the tensor as attributes.
struct Hdf5Dataset {
    std::string path;  ///< "/group/name"
    Shape shape;
    std::vector<std::pair<std::string, Shape>> attributes;
};

struct FilePiece {
    std::int64_t offset = 0;
    std::string bytes;
};

struct Hdf5Layout {
    std::int64_t bytes = 0;                  ///< size of the file
    std::vector<std::int64_t> data_offsets;  ///< of each dataset
    std::vector<FilePiece> rest;             ///< every byte that is not a dataset's, ascending
};

/// A file with these datasets, using `scratch_file`, which is removed. The same datasets give the
/// same bytes.
Hdf5Layout lay_out_datasets(const std::filesystem::path& scratch_file,
                            std::span<const Hdf5Dataset> datasets);

/// The contents of model.h5: a virtual dataset "/group/name" for each tensor, which shows its
/// extents in the shard files beside it (NaN where a file is missing), and the attributes of the
/// file (see write_attributes).
std::string virtual_index(const std::filesystem::path& scratch_file,
                          std::span<const TensorRecord> tensors, const Json& attributes);

}  // namespace gptrain
