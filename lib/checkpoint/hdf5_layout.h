// The structure of HDF5 files, as bytes. The library writes a sparse file in memory, closes it and
// reopens it to check that everything is there; the bytes are then read from that file. Errors
// become one line. HDF5 must run on one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
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
    std::vector<std::int64_t> data_offsets;  ///< one for each dataset
    std::vector<FilePiece> metadata;         ///< every byte outside the datasets, ascending
};

// Messages name the file `path`, which is not written.

/// Lays out a file with these datasets. The same datasets give the same bytes.
Hdf5Layout lay_out_datasets(const std::filesystem::path& path,
                            std::span<const Hdf5Dataset> datasets);

/// The contents of model.h5: for each tensor a virtual dataset "/group/name" that maps its extents
/// in the shard files next to it (NaN if a file is missing), and the file's attributes (see
/// write_attributes).
std::string virtual_index(const std::filesystem::path& path, std::span<const TensorRecord> tensors,
                          const Json& attributes);

}  // namespace gptrain
