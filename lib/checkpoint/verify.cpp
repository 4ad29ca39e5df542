#include "checkpoint/verify.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "base/crc32c.h"
#include "checkpoint/block.h"

namespace gptrain {
namespace {

struct Placed {
    const TensorRecord* tensor;
    const ExtentRecord* extent;
};

/// CRC-32C of bytes [begin, end), continued from `crc`.
std::uint32_t crc_of_range(const File& file, std::int64_t begin, std::int64_t end,
                           std::uint32_t crc, std::span<std::byte> buffer) {
    while (begin < end) {
        const auto bytes = std::min<std::int64_t>(end - begin, std::ssize(buffer));
        const auto part = buffer.first(static_cast<std::size_t>(bytes));
        file.read_at(begin, part);
        crc = crc32c(part.data(), part.size(), crc);
        begin += bytes;
    }
    return crc;
}

void verify_file(const std::filesystem::path& folder, const FileRecord& record,
                 std::vector<Placed> placed, VerifyDepth depth, std::span<std::byte> buffer) {
    std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
        return a.extent->byte_offset < b.extent->byte_offset;
    });
    const File file = open_listed(folder, record);
    std::uint32_t rest = 0;
    std::int64_t at = 0;
    for (const auto& [tensor, extent] : placed) {
        rest = crc_of_range(file, at, extent->byte_offset, rest, buffer);
        at = extent->byte_offset + extent->bytes();
        if (depth == VerifyDepth::structure) continue;
        for (std::size_t block = 0; block < extent->crc32c.size(); ++block) {
            read_block(file, *tensor, *extent, static_cast<std::int64_t>(block), buffer);
        }
    }
    if (crc_of_range(file, at, record.bytes, rest, buffer) != record.rest_crc32c) {
        const bool hdf5 = file.path().extension() == ".h5";
        fail(ExitCode::bad_input, file.path().string(),
             hdf5 ? ": the HDF5 structure (bytes outside the datasets' data) is damaged"
                  : ": is damaged (its CRC-32C does not match the manifest)");
    }
}

}  // namespace

Manifest verify_checkpoint(const std::filesystem::path& folder, VerifyDepth depth) {
    Manifest manifest = read_manifest(folder);
    std::map<std::string, std::vector<Placed>> placed;
    for (const TensorRecord& tensor : manifest.tensors) {
        for (const ExtentRecord& extent : tensor.extents) {
            placed[extent.file].push_back({&tensor, &extent});
        }
    }
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(checkpoint_block_bytes);
    const std::span buffer(memory.get(), checkpoint_block_bytes);
    for (const FileRecord& file : manifest.files) {
        verify_file(folder, file, std::move(placed[file.name]), depth, buffer);
    }
    return manifest;
}

}  // namespace gptrain
