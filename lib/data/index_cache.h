// Indices of a training order as memory-mapped files, so that their size does not matter to memory
// and a second start finds them ready.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace gptrain {

/// The arrays of one cached file, read-only. All integers are little-endian.
///   0   8 bytes  "GPTINDEX"
///   8   u32      version, 1
///  12   u32      CRC-32C of all that follows
///  16   u64      bytes of the key
///  24   key      text that says what the arrays were made from; then zeros to a multiple of 64
///       arrays   in order, each followed by zeros to a multiple of 64
class CachedArrays {
public:
    /// Sizes of the arrays in bytes.
    using Sizes = std::vector<std::int64_t>;
    /// Fills the arrays, which are zero before.
    using Build = std::function<void(const std::vector<std::span<std::byte>>& arrays)>;

    /// Maps folder/NAME-<hash of key>.index. If it is missing it is built; if it is damaged or
    /// belongs to another key it is built anew, with a warning. It is built under another name and
    /// takes its own only when it is whole and on the disk, so any number of processes may do this
    /// at once; one of them builds it while the others wait for the lock folder/.lock (where the
    /// file system has no locks, each builds it).
    CachedArrays(const std::filesystem::path& folder, std::string_view name, const std::string& key,
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

/// The same for an array that is being built.
template <class T>
std::span<T> elements(std::span<std::byte> bytes) {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace gptrain
