#include "codec/decompressor.h"

#include <algorithm>
#include <limits>
#include <new>
#include <zlib.h>
#include <zstd.h>

#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::array gzip_magic = {std::byte{0x1F}, std::byte{0x8B}};
constexpr std::array zstd_magic = {std::byte{0x28}, std::byte{0xB5}, std::byte{0x2F},
                                   std::byte{0xFD}};
// Frames with notes for other programs, such as pzstd's: the first byte is 0x50 to 0x5F.
constexpr std::array skippable_magic = {std::byte{0x2A}, std::byte{0x4D}, std::byte{0x18}};

bool begins_with(std::span<const std::byte> bytes, std::span<const std::byte> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

bool begins_skippable(std::byte first) {
    return (first & std::byte{0xF0}) == std::byte{0x50};
}

class Gzip final : public Decompressor {
public:
    Gzip() {
        constexpr int gzip_only = 16 + MAX_WBITS;
        if (::inflateInit2(&stream_, gzip_only) != Z_OK) throw std::bad_alloc();
    }
    Gzip(const Gzip&) = delete;
    Gzip& operator=(const Gzip&) = delete;
    ~Gzip() override { ::inflateEnd(&stream_); }

    std::string_view format() const override { return "gzip"; }
    bool may_start_with(std::byte byte) const override { return byte == gzip_magic[0]; }

    Progress decompress(std::span<const std::byte> input, std::span<std::byte> output) override {
        constexpr std::size_t most = std::numeric_limits<uInt>::max();
        input = input.first(std::min(input.size(), most));
        output = output.first(std::min(output.size(), most));
        // zlib takes a pointer to bytes that it does not change.
        stream_.next_in =
            const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));  // NOLINT
        stream_.avail_in = static_cast<uInt>(input.size());
        stream_.next_out = reinterpret_cast<Bytef*>(output.data());
        stream_.avail_out = static_cast<uInt>(output.size());
        const int result = ::inflate(&stream_, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR) throw std::bad_alloc();
        Progress progress = {.read = input.size() - stream_.avail_in,
                             .written = output.size() - stream_.avail_out,
                             .ended = result == Z_STREAM_END,
                             .fault = {}};
        if (progress.ended) {
            ::inflateReset(&stream_);
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            progress.fault = stream_.msg != nullptr ? stream_.msg : "unknown fault";
        }
        return progress;
    }

private:
    z_stream stream_{};  // must not move
};

class Zstd final : public Decompressor {
public:
    Zstd() : stream_(::ZSTD_createDStream()) {
        if (!stream_) throw std::bad_alloc();
    }

    std::string_view format() const override { return "zstd"; }
    bool may_start_with(std::byte byte) const override {
        return byte == zstd_magic[0] || begins_skippable(byte);
    }

    Progress decompress(std::span<const std::byte> input, std::span<std::byte> output) override {
        ZSTD_inBuffer in = {input.data(), input.size(), 0};
        ZSTD_outBuffer out = {output.data(), output.size(), 0};
        const std::size_t result = ::ZSTD_decompressStream(stream_.get(), &out, &in);
        Progress progress = {.read = in.pos, .written = out.pos, .ended = result == 0, .fault = {}};
        if (::ZSTD_isError(result) != 0) set_fault(result, progress);
        return progress;
    }

private:
    struct Free {
        void operator()(ZSTD_DStream* stream) const { ::ZSTD_freeDStream(stream); }
    };

    static void set_fault(std::size_t result, Progress& progress) {
        // libzstd names the codes only in its experimental part; their texts say enough.
        progress.fault = ::ZSTD_getErrorName(result);
        if (progress.fault.find("Allocation error") != std::string::npos) throw std::bad_alloc();
        progress.large_window = progress.fault.find("too much memory") != std::string::npos;
    }

    std::unique_ptr<ZSTD_DStream, Free> stream_;
};

}  // namespace

std::unique_ptr<Decompressor> gzip_decompressor() {
    return std::make_unique<Gzip>();
}

std::unique_ptr<Decompressor> decompressor_for(std::span<const std::byte> start) {
    if (begins_with(start, gzip_magic)) return gzip_decompressor();
    const bool skippable = !start.empty() && begins_skippable(start[0]) &&
                           begins_with(start.subspan(1), skippable_magic);
    if (skippable || begins_with(start, zstd_magic)) return std::make_unique<Zstd>();
    return nullptr;
}

std::string decompressor_versions() {
    return text("zlib ", zlibVersion(), ", libzstd ", ZSTD_versionString());
}

}  // namespace gptrain
