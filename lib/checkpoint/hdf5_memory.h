// Files in memory for the HDF5 library: ranges that it never writes, such as the data of a layout,
// take no memory. (HDF5's own driver for memory would fill it with zeros.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <hdf5.h>
#include <map>
#include <span>
#include <string>

namespace gptrain {

/// A file with holes, which read as zeros.
class SparseFile {
public:
    std::int64_t size() const { return size_; }
    /// Cuts off what is behind `bytes`, or appends a hole.
    void resize(std::int64_t bytes);
    /// The file grows where it is too short.
    void write_at(std::int64_t offset, std::span<const std::byte> bytes);
    /// Bytes beyond the end read as zeros, too.
    void read_at(std::int64_t offset, std::span<std::byte> bytes) const;

private:
    std::int64_t size_ = 0;
    std::map<std::int64_t, std::string> pages_;  ///< by offset; all have the same size
};

/// Lets H5Fcreate and H5Fopen take `file` if they are called with this access list, under any name.
/// The layout is that of a file on a disk. `file` must outlive the list and what it opened.
/// `subject`: for messages.
void keep_in_memory(hid_t access, SparseFile& file, const std::string& subject);

}  // namespace gptrain
