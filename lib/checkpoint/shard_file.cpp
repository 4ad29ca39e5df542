#include "checkpoint/shard_file.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "base/crc32c.h"
#include "base/parallel_for.h"
#include "checkpoint/shard_record.h"
#include "checkpoint/verify.h"

namespace gptrain {
namespace {

static_assert(std::endian::native == std::endian::little, "fp32 values are written as they are");

Hdf5Dataset dataset_for(const TensorRecord& tensor, const ExtentRecord& extent) {
    Hdf5Dataset dataset{dataset_path(tensor, extent),
                        extent.box.extent,
                        {{"global_shape", tensor.shape}, {"box_offset", extent.box.offset}}};
    if (extent.elements() != extent.box.extent.elements()) {
        dataset.shape = {extent.elements()};
        dataset.attributes.emplace_back("box_extent", extent.box.extent);
        dataset.attributes.emplace_back("flat_range", Shape{extent.flat_begin, extent.flat_end});
    }
    return dataset;
}

std::vector<std::uint32_t> write_extent(File& file, const ExtentRecord& extent, std::size_t index,
                                        const BlockSource& blocks) {
    std::vector<std::uint32_t> crcs(
        static_cast<std::size_t>(div_ceil(extent.bytes(), checkpoint_block_bytes)));
    for (std::int64_t at = 0; at < extent.bytes();) {
        const auto piece = blocks(index, at, extent.bytes() - at);
        const std::int64_t count = div_ceil(std::ssize(piece), checkpoint_block_bytes);
        parallel_for(count, checkpoint_threads, [&](std::int64_t i) {
            const std::int64_t begin = i * checkpoint_block_bytes;
            const std::int64_t bytes = std::min(checkpoint_block_bytes, std::ssize(piece) - begin);
            const auto block =
                piece.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
            crcs[static_cast<std::size_t>((at + begin) / checkpoint_block_bytes)] =
                crc32c(block.data(), block.size());
            file.write_at(extent.byte_offset + at + begin, block);
            file.begin_sync(extent.byte_offset + at + begin, bytes);
        });
        at += std::ssize(piece);
    }
    return crcs;
}

}  // namespace

ShardLayout plan_shard_file(const std::filesystem::path& folder, int rank,
                            std::span<const HeldState> owned) {
    ShardLayout layout;
    layout.file = shard_file_name(rank);
    std::vector<Hdf5Dataset> datasets;
    for (const auto& [group, shard, values] : owned) {
        const ExtentRecord extent{shard.box, shard.flat_begin, shard.flat_end, layout.file, 0, {}};
        layout.tensors.push_back({group, shard.name, shard.global, {extent}});
        datasets.push_back(dataset_for(layout.tensors.back(), extent));
    }
    layout.hdf5 = lay_out_datasets(folder / layout.file, datasets);
    for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
        layout.tensors[i].extents.front().byte_offset = layout.hdf5.data_offsets[i];
    }
    return layout;
}

std::vector<TensorRecord> write_shard_file(File file, const ShardLayout& layout,
                                           const BlockSource& blocks) {
    for (const FilePiece& piece : layout.hdf5.metadata) {
        file.write_at(piece.offset, std::as_bytes(std::span(piece.bytes)));
    }
    std::vector<TensorRecord> written = layout.tensors;
    for (std::size_t i = 0; i < written.size(); ++i) {
        ExtentRecord& extent = written[i].extents.front();
        extent.crc32c = write_extent(file, extent, i, blocks);
    }
    file.sync();
    file.close();
    return written;
}

FileRecord file_record(const ShardLayout& layout) {
    std::uint32_t crc = 0;
    for (const FilePiece& piece : layout.hdf5.metadata) {
        crc = crc32c(piece.bytes.data(), piece.bytes.size(), crc);
    }
    return {layout.file, layout.hdf5.bytes, crc};
}

std::vector<FileRecord> write_shard(File file, const ShardLayout& layout,
                                    const BlockSource& blocks) {
    const std::filesystem::path folder = file.path().parent_path();
    const std::string text = record_text(write_shard_file(std::move(file), layout, blocks));
    const FileRecord record{record_file_name(shard_number(layout.file)), std::ssize(text),
                            crc32c(text.data(), text.size())};
    write_whole(create_reserved(folder / record.name, record.bytes), text);
    const FileRecord shard = file_record(layout);
    as_written([&] { verify_shard(folder, shard, record); });
    return {shard, record};
}

}  // namespace gptrain
