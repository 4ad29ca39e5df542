// Decompression of blocks whose sizes are known.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "codec/decompressor.h"

namespace gptrain {

enum class BlockCodec { none, snappy, gzip, zstd, lz4, hadoop_lz4 };

/// Keeps the state of zlib and libzstd from block to block.
class BlockDecompressor {
public:
    BlockDecompressor();
    BlockDecompressor(BlockDecompressor&&) noexcept;
    BlockDecompressor& operator=(BlockDecompressor&&) noexcept;
    ~BlockDecompressor();

    /// Decompresses all of `block` into exactly out.size() bytes. Gzip data may have several
    /// members, zstd data several frames. Error (bad_input), without a place, if the data is
    /// damaged or has another size.
    void unpack(BlockCodec codec, std::span<const std::byte> block, std::span<std::byte> out);

private:
    void unpack_gzip(std::span<const std::byte> block, std::span<std::byte> out);
    void unpack_zstd(std::span<const std::byte> block, std::span<std::byte> out);

    struct ZstdContext;
    std::unique_ptr<ZstdContext> zstd_;
    std::unique_ptr<Decompressor> gzip_;
};

}  // namespace gptrain
