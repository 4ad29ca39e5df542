#include "text/input_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/letters.h"

namespace gptrain {
namespace {

constexpr std::size_t stored_bytes = std::size_t{256} << 10;

File open_input(const std::filesystem::path& path) {
    const auto type = require_path(path, ExitCode::bad_input, "file");
    if (type == std::filesystem::file_type::directory) {
        fail(ExitCode::bad_input, path.string(), ": a folder, not a text file");
    }
    return File(path, File::Mode::read);
}

/// Error if the name promises a format that the data does not have (empty: not compressed).
void check_name(const std::filesystem::path& path, std::string_view format) {
    for (const CompressedFormat& named : compressed_formats) {
        if (in_lower_case(path.extension().string()) != named.extension || format == named.name)
            continue;
        fail(ExitCode::bad_input, path.string(), ": is named ", named.extension, ", but is not ",
             named.name, " data; copy it again, or rename it if it is ",
             format.empty() ? std::string_view("text") : format);
    }
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path)
    : file_(open_input(path)), stored_(stored_bytes) {
    fill();
    decompressor_ = decompressor_for(std::span(stored_).first(filled_));
    check_name(path, decompressor_ ? decompressor_->format() : "");
}

bool InputFile::fill() {
    stored_begin_ += static_cast<std::int64_t>(filled_);
    filled_ = file_.read(stored_);
    at_ = 0;
    return filled_ > 0;
}

std::size_t InputFile::read(std::span<std::byte> bytes) {
    return decompressor_ ? decompress(bytes) : copy(bytes);
}

std::size_t InputFile::copy(std::span<std::byte> bytes) {
    std::size_t total = 0;
    while (total < bytes.size() && (at_ < filled_ || fill())) {
        const std::size_t count = std::min(filled_ - at_, bytes.size() - total);
        std::memcpy(bytes.data() + total, stored_.data() + at_, count);
        at_ += count;
        total += count;
    }
    return total;
}

std::size_t InputFile::decompress(std::span<std::byte> bytes) {
    std::size_t total = 0;
    while (total < bytes.size()) {
        if (between_members_ && !begin_member()) break;
        if (at_ == filled_ && !output_waits_ && !fill()) fail_damaged("unexpected end");
        const auto progress = decompressor_->decompress(
            std::span(stored_).subspan(at_, filled_ - at_), bytes.subspan(total));
        at_ += progress.read;
        total += progress.written;
        if (progress.large_window) fail_large_window();
        if (!progress.fault.empty()) fail_damaged(progress.fault);
        between_members_ = progress.ended;
        output_waits_ = !progress.ended && total == bytes.size();
    }
    return total;
}

bool InputFile::begin_member() {
    // Tapes and block devices pad with zeros.
    while (at_ < filled_ || fill()) {
        if (decompressor_->may_start_with(stored_[at_])) {
            between_members_ = false;
            return true;
        }
        if (stored_[at_] != std::byte{0}) fail_damaged("unexpected data after the end");
        ++at_;
    }
    return false;
}

void InputFile::fail_damaged(std::string_view what) const {
    fail(ExitCode::bad_input, path().string(), ": damaged ", decompressor_->format(),
         " data: ", what, " (byte ", stored_begin_ + static_cast<std::int64_t>(at_),
         " of the file); copy the file again");
}

void InputFile::fail_large_window() const {
    const std::string name = path().string();
    fail(ExitCode::bad_input, name, ": ", decompressor_->format(),
         " data with a window above 128 MiB (zstd --long=28 or more); unpack it: zstd -dc "
         "--long=31 '",
         name, "' >FILE");
}

bool is_compressed(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return false;
    try {
        std::array<std::byte, 4> start{};
        const std::size_t count = File(path, File::Mode::read).read(start);
        return decompressor_for(std::span(start).first(count)) != nullptr;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace gptrain
