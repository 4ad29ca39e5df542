#include "checkpoint/block.h"

#include <algorithm>

#include "base/crc32c.h"

namespace gptrain {

File open_listed(const std::filesystem::path& folder, const FileRecord& record) {
    const std::filesystem::path path = folder / record.name;
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::status_known(status))
        fail(ExitCode::io, path.string(), ": ", error.message());
    if (!std::filesystem::exists(status)) fail(ExitCode::bad_input, path.string(), ": not found");
    if (!std::filesystem::is_regular_file(status)) {
        fail(ExitCode::bad_input, path.string(), ": is not a regular file");
    }
    File file(path, File::Mode::read);
    if (file.size() != record.bytes) {
        fail(ExitCode::bad_input, path.string(), ": has ", file.size(), " bytes instead of ",
             record.bytes);
    }
    return file;
}

std::string read_whole(const std::filesystem::path& folder, const FileRecord& record,
                       std::int64_t limit) {
    const File file = open_listed(folder, record);
    if (record.bytes > limit) {
        fail(ExitCode::bad_input, file.path().string(), ": has ", human_bytes(record.bytes),
             "; the limit is ", human_bytes(limit));
    }
    std::string contents(static_cast<std::size_t>(record.bytes), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(contents)));
    if (crc32c(contents.data(), contents.size()) != record.rest_crc32c) {
        fail(ExitCode::bad_input, file.path().string(),
             ": is damaged (its CRC-32C does not match the manifest)");
    }
    return contents;
}

std::int64_t block_bytes(const ExtentRecord& extent, std::int64_t index) {
    return std::min(checkpoint_block_bytes, extent.bytes() - index * checkpoint_block_bytes);
}

std::span<const std::byte> read_block(const File& file, const TensorRecord& tensor,
                                      const ExtentRecord& extent, std::int64_t index,
                                      std::span<std::byte> buffer) {
    const std::int64_t bytes = block_bytes(extent, index);
    const std::span<std::byte> block = buffer.first(static_cast<std::size_t>(bytes));
    const std::int64_t at = extent.byte_offset + index * checkpoint_block_bytes;
    file.read_at(at, block);
    if (crc32c(block.data(), block.size()) != extent.crc32c[static_cast<std::size_t>(index)]) {
        fail(ExitCode::bad_input, file.path().string(), ": dataset ", dataset_path(tensor, extent),
             " is damaged in bytes [", at, ", ", at + bytes, ") of the file");
    }
    return block;
}

}  // namespace gptrain
