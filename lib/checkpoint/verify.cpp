#include "checkpoint/verify.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/at.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/parallel_for.h"
#include "checkpoint/block.h"
#include "checkpoint/shard_record.h"

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
                 std::vector<Placed> placed, VerifyDepth depth) {
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(checkpoint_block_bytes);
    const std::span buffer(memory.get(), checkpoint_block_bytes);
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

/// Programs that read HDF5 see the tensors in model.h5; gptrain never reads it.
void verify_view(const std::filesystem::path& folder, const FileRecord& view) {
    const std::string damage = damage_to(folder, view);
    if (damage.empty()) return;
    warn(damage, "; gptrain does not need it; to write it again: gptrain inspect ", folder.string(),
         " --view");
}

}  // namespace

Manifest verify_checkpoint(const std::filesystem::path& folder, VerifyDepth depth) {
    Manifest manifest = read_manifest(folder);
    std::map<std::string_view, std::vector<Placed>> placed;
    for (const TensorRecord& tensor : manifest.tensors) {
        for (const ExtentRecord& extent : tensor.extents) {
            placed[extent.file].push_back({&tensor, &extent});
        }
    }
    parallel_for(std::ssize(manifest.files), checkpoint_threads, [&](std::int64_t i) {
        const FileRecord& file = at(manifest.files, i);
        if (depth == VerifyDepth::structure && file.name == model_index_name)
            return verify_view(folder, file);
        const auto of_file = placed.find(file.name);
        verify_file(folder, file, of_file == placed.end() ? std::vector<Placed>() : of_file->second,
                    depth);
    });
    return manifest;
}

void verify_part(const std::filesystem::path& folder, const CheckpointIndex& index, int part,
                 int parts) {
    const IndexLookup lookup(index);
    std::vector<const FileRecord*> shards;
    for (const FileRecord& file : index.files) {
        if (const auto shard = shard_number_of(file.name)) {
            if (*shard % parts == part) shards.push_back(&file);
        } else if (part == 0 && file.name == model_index_name) {
            verify_view(folder, file);
        } else if (part == 0 && !record_number_of(file.name)) {
            verify_whole(folder, file);
        }
    }
    parallel_for(std::ssize(shards), checkpoint_threads, [&](std::int64_t i) {
        const FileRecord& shard = *at(shards, i);
        verify_shard(folder, shard, lookup.file(record_file_name(shard_number(shard.name))));
    });
}

void verify_shard(const std::filesystem::path& folder, const FileRecord& shard,
                  const FileRecord& record) {
    const std::vector<TensorRecord> tensors = read_record(folder, shard, record);
    std::vector<Placed> placed;
    for (const TensorRecord& tensor : tensors) {
        for (const ExtentRecord& extent : tensor.extents)
            placed.push_back({&tensor, &extent});
    }
    verify_file(folder, shard, std::move(placed), VerifyDepth::structure);
}

void verify_whole(const std::filesystem::path& folder, const FileRecord& file) {
    verify_file(folder, file, {}, VerifyDepth::structure);
}

std::string damage_to(const std::filesystem::path& folder, const FileRecord& file) {
    try {
        verify_whole(folder, file);
    } catch (const Error& damage) {
        if (damage.code() != ExitCode::bad_input) throw;
        return damage.what();
    }
    return "";
}

bool is_unusable(const Error& error) {
    return error.code() == ExitCode::bad_input || error.code() == ExitCode::io;
}

void as_written(const std::function<void()>& check) {
    try {
        check();
    } catch (const Error& error) {
        fail(ExitCode::io, "the checkpoint just written does not read back: ", error.what());
    }
}

}  // namespace gptrain
