#include "codec/block_decompressor.h"

#include <cstring>
#include <new>
#include <zstd.h>

#include "base/error.h"
#include "codec/lz4.h"
#include "codec/snappy.h"

namespace gptrain {

struct BlockDecompressor::ZstdContext {
    ZstdContext() : context(::ZSTD_createDCtx()) {
        if (context == nullptr) throw std::bad_alloc();
    }
    ZstdContext(const ZstdContext&) = delete;
    ZstdContext& operator=(const ZstdContext&) = delete;
    ~ZstdContext() { ::ZSTD_freeDCtx(context); }

    ZSTD_DCtx* context;
};

BlockDecompressor::BlockDecompressor() = default;
BlockDecompressor::BlockDecompressor(BlockDecompressor&&) noexcept = default;
BlockDecompressor& BlockDecompressor::operator=(BlockDecompressor&&) noexcept = default;
BlockDecompressor::~BlockDecompressor() = default;

void BlockDecompressor::unpack(BlockCodec codec, std::span<const std::byte> block,
                               std::span<std::byte> out) {
    if (block.empty() && out.empty()) return;
    switch (codec) {
        case BlockCodec::none:
            if (block.size() != out.size())
                fail(ExitCode::bad_input, "it has ", block.size(), " bytes instead of ",
                     out.size());
            std::memcpy(out.data(), block.data(), block.size());
            return;
        case BlockCodec::snappy: return unpack_snappy(block, out);
        case BlockCodec::gzip: return unpack_gzip(block, out);
        case BlockCodec::zstd: return unpack_zstd(block, out);
        case BlockCodec::lz4: return unpack_lz4(block, out);
        case BlockCodec::hadoop_lz4: return unpack_hadoop_lz4(block, out);
    }
}

void BlockDecompressor::unpack_gzip(std::span<const std::byte> block, std::span<std::byte> out) {
    if (!gzip_) gzip_ = gzip_decompressor();
    const std::size_t size = out.size();
    bool ended = false;
    while (!ended || !block.empty()) {
        const Decompressor::Progress progress = gzip_->decompress(block, out);
        if (!progress.fault.empty())
            fail(ExitCode::bad_input, "damaged gzip data: ", progress.fault);
        if (progress.read == 0 && progress.written == 0 && !progress.ended)
            fail(ExitCode::bad_input,
                 block.empty() ? "its gzip data is cut off" : "more data than its header states");
        ended = progress.ended;
        block = block.subspan(progress.read);
        out = out.subspan(progress.written);
    }
    if (!out.empty())
        fail(ExitCode::bad_input, "its gzip data has ", size - out.size(), " bytes instead of ",
             size);
}

void BlockDecompressor::unpack_zstd(std::span<const std::byte> block, std::span<std::byte> out) {
    if (!zstd_) zstd_ = std::make_unique<ZstdContext>();
    const std::size_t size =
        ::ZSTD_decompressDCtx(zstd_->context, out.data(), out.size(), block.data(), block.size());
    if (::ZSTD_isError(size) != 0)
        fail(ExitCode::bad_input, "damaged zstd data: ", ::ZSTD_getErrorName(size));
    if (size != out.size())
        fail(ExitCode::bad_input, "its zstd data has ", size, " bytes instead of ", out.size());
}

}  // namespace gptrain
