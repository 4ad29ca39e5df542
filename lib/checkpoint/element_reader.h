// Reads elements of tensors from the blocks of the shard files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/manifest.h"

namespace gptrain {

constexpr std::int64_t block_elements = checkpoint_block_bytes / size_of(DType::f32);

constexpr std::size_t bytes_of(std::int64_t elements) {
    return static_cast<std::size_t>(elements * size_of(DType::f32));
}

/// Verified blocks of the shard files. Whole blocks are read straight to their destination. Blocks
/// needed in part are cached, least recently used first out: if the mesh has changed, neighbouring
/// parts of a tensor share blocks.
class BlockCache {
public:
    /// The manifest must outlive it.
    BlockCache(const std::filesystem::path& folder, const Manifest& manifest)
        : folder_(folder), manifest_(manifest) {}

    /// Reads the bytes of block `index` from its byte `begin` on.
    void read(const TensorRecord& tensor, const ExtentRecord& extent, std::int64_t index,
              std::size_t begin, std::span<std::byte> to);

    const std::filesystem::path& folder() const { return folder_; }

private:
    static constexpr std::size_t max_entries = 16;
    static constexpr std::size_t max_files = 64;

    struct Entry {
        const ExtentRecord* extent = nullptr;
        std::int64_t index = 0;
        std::int64_t last_used = 0;
        std::unique_ptr<std::byte[]> memory;
        std::span<const std::byte> block;
    };

    std::span<const std::byte> block(const TensorRecord& tensor, const ExtentRecord& extent,
                                     std::int64_t index);
    Entry& free_entry();
    const File& file(const std::string& name);

    std::filesystem::path folder_;
    const Manifest& manifest_;
    std::map<std::string, File> files_;
    std::vector<Entry> entries_;
    std::int64_t clock_ = 0;
};

/// Reads elements of tensors into memory, on one thread. Damage is an Error, as in `read_block`.
class ElementReader {
public:
    /// The manifest must outlive it.
    ElementReader(const std::filesystem::path& folder, const Manifest& manifest)
        : cache_(folder, manifest) {}

    /// to = the elements of `part`. If the manifest lacks some of them: Error (bad_input).
    void read(const Shard& part, const TensorRecord& tensor, std::span<std::byte> to);

private:
    /// to = the extent's elements from `from` on.
    void copy(const TensorRecord& tensor, const ExtentRecord& extent, std::int64_t from,
              std::span<std::byte> to);

    BlockCache cache_;
};

}  // namespace gptrain
