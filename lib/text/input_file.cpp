#include "text/input_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <zlib.h>

#include "base/error.h"

namespace gptrain {
namespace {

constexpr std::size_t stored_bytes = std::size_t{256} << 10;
constexpr std::array magic = {std::byte{0x1F}, std::byte{0x8B}};

File open_input(const std::filesystem::path& path) {
    const auto type = require_path(path, ExitCode::bad_input, "file");
    if (type == std::filesystem::file_type::directory) {
        fail(ExitCode::bad_input, path.string(), ": a folder, not a text file");
    }
    return File(path, File::Mode::read);
}

bool begins_with_magic(std::span<const std::byte> bytes) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

}  // namespace

/// zlib's state, which must not move.
struct InputFile::Gzip {
    Gzip() {
        constexpr int gzip_only = 16 + MAX_WBITS;
        if (::inflateInit2(&stream, gzip_only) != Z_OK) throw std::bad_alloc();
    }
    Gzip(const Gzip&) = delete;
    Gzip& operator=(const Gzip&) = delete;
    ~Gzip() { ::inflateEnd(&stream); }

    z_stream stream{};
    bool between_members = false;
};

InputFile::InputFile(const std::filesystem::path& path)
    : file_(open_input(path)), stored_(stored_bytes) {
    fill();
    if (begins_with_magic(std::span(stored_).first(filled_))) {
        gzip_ = std::make_unique<Gzip>();
    } else if (path.extension() == ".gz") {
        fail(ExitCode::bad_input, path.string(),
             ": is named .gz, but is not gzip data; copy it again, or rename it if it is text");
    }
}

InputFile::InputFile(InputFile&&) noexcept = default;
InputFile& InputFile::operator=(InputFile&&) noexcept = default;
InputFile::~InputFile() = default;

bool InputFile::fill() {
    stored_begin_ += static_cast<std::int64_t>(filled_);
    filled_ = file_.read(stored_);
    at_ = 0;
    return filled_ > 0;
}

std::size_t InputFile::read(std::span<std::byte> bytes) {
    if (gzip_) return unpack(bytes);
    std::size_t total = 0;
    while (total < bytes.size() && (at_ < filled_ || fill())) {
        const std::size_t count = std::min(filled_ - at_, bytes.size() - total);
        std::memcpy(bytes.data() + total, stored_.data() + at_, count);
        at_ += count;
        total += count;
    }
    return total;
}

std::size_t InputFile::unpack(std::span<std::byte> bytes) {
    z_stream& stream = gzip_->stream;
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream.avail_out = static_cast<uInt>(bytes.size());
    while (stream.avail_out > 0) {
        if (gzip_->between_members && !begin_member()) break;
        if (at_ == filled_ && !fill()) fail_damaged("unexpected end");
        stream.next_in = reinterpret_cast<Bytef*>(stored_.data() + at_);
        stream.avail_in = static_cast<uInt>(filled_ - at_);
        const int result = ::inflate(&stream, Z_NO_FLUSH);
        at_ = filled_ - stream.avail_in;
        if (result == Z_MEM_ERROR) throw std::bad_alloc();
        if (result == Z_STREAM_END) gzip_->between_members = true;
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            fail_damaged(stream.msg != nullptr ? stream.msg : "unknown fault");
    }
    return bytes.size() - stream.avail_out;
}

bool InputFile::begin_member() {
    // Tapes and block devices pad with zeros.
    while (at_ < filled_ || fill()) {
        if (stored_[at_] == magic[0]) {
            ::inflateReset(&gzip_->stream);
            gzip_->between_members = false;
            return true;
        }
        if (stored_[at_] != std::byte{0}) fail_damaged("unexpected data after the end");
        ++at_;
    }
    return false;
}

void InputFile::fail_damaged(const char* what) const {
    fail(ExitCode::bad_input, path().string(), ": damaged gzip data: ", what, " (byte ",
         stored_begin_ + static_cast<std::int64_t>(at_), " of the file); copy the file again");
}

bool is_gzip(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return false;
    try {
        std::array<std::byte, magic.size()> start{};
        return begins_with_magic(std::span(start).first(File(path, File::Mode::read).read(start)));
    } catch (const Error&) {
        return false;
    }
}

}  // namespace gptrain
