// Indices of a training order as memory-mapped files: they take no process memory, and a later
// start finds them ready.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "data/share.h"

namespace gptrain {

class MpiSession;

/// Where indices are kept, and who opens them.
struct IndexCache {
    IndexCache(std::filesystem::path where, const MpiSession* all = nullptr)
        : folder(std::move(where)), ranks(all) {}

    /// The same folder, for a thread that must not communicate.
    IndexCache alone() const { return {folder}; }

    std::filesystem::path folder;
    /// If not null, all ranks open the same indices together, inside run_on_all: rank 0 builds what
    /// is missing, and each rank reads its share of a file to check it.
    const MpiSession* ranks = nullptr;
};

/// The read-only arrays of one cached file. Integers are little-endian.
///   0   8 bytes  "GPTINDEX"
///   8   u32      version, 1
///  12   u32      CRC-32C of everything after this field
///  16   u64      bytes of the key
///  24   key      text that identifies the arrays' inputs; zero-padded to a multiple of 64
///       arrays   in order, each zero-padded to a multiple of 64
class CachedArrays {
public:
    /// Sizes of the arrays in bytes.
    using Sizes = std::vector<std::int64_t>;
    /// Fills the arrays, which are initially zero.
    using Build = std::function<void(const std::vector<std::span<std::byte>>& arrays)>;

    /// Maps folder/NAME-<hash of key>.index. Builds it if it is missing, and rebuilds it, with a
    /// warning, if it is damaged or has another key. The file is built under a temporary name and
    /// renamed when it is complete and durable, so any number of processes may do this at once: one
    /// builds, the others wait for the lock folder/.lock (on file systems without locks, each
    /// builds).
    CachedArrays(const IndexCache& cache, std::string_view name, const std::string& key,
                 const Sizes& sizes, const Build& build);

    /// Array `index` as elements of T.
    template <class T>
    std::span<const T> array(std::size_t index) const {
        const std::span<const std::byte> bytes = arrays_[index];
        return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
    }

private:
    MappedFile file_;
    std::vector<std::span<const std::byte>> arrays_;
};

/// A share's part of the checksum of such a file; all shares together by exclusive or.
std::uint32_t index_crc(std::span<const std::byte> file, Share share);

/// Removes the unfinished files that killed processes left in the folder. Files of other machines
/// must have been unchanged for an hour: without locks between machines, another one may still be
/// building its own.
void remove_index_leftovers(const std::filesystem::path& folder);

/// An array under construction, as elements of T.
template <class T>
std::span<T> elements(std::span<std::byte> bytes) {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace gptrain
