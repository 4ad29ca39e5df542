#include "checkpoint/read_ahead.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file.h"
#include "checkpoint/shard_names.h"

namespace gptrain {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

void read_all(const std::vector<std::filesystem::path>& files, std::int64_t most_bytes,
              const std::stop_token& stop) {
    const auto piece = std::make_unique_for_overwrite<std::byte[]>(piece_bytes);
    for (const std::filesystem::path& path : files) {
        if (stop.stop_requested()) return;
        File file(path, File::Mode::read);
        std::size_t bytes = piece_bytes;
        while (bytes == piece_bytes && most_bytes > 0 && !stop.stop_requested()) {
            bytes = file.read(std::span(piece.get(), piece_bytes));
            most_bytes -= static_cast<std::int64_t>(bytes);
        }
    }
}

}  // namespace

ReadAhead::ReadAhead(std::vector<std::filesystem::path> files, std::int64_t most_bytes) {
    if (files.empty()) return;
    // It shares nothing with this thread but the request to stop.
    std::thread([files = std::move(files), most_bytes, stop = stop_.get_token()] {
        try {
            read_all(files, most_bytes, stop);
        } catch (const std::exception&) {
            // Whoever needs the files reports it.
        }
    }).detach();
}

std::vector<std::filesystem::path> shard_files_of(const std::filesystem::path& checkpoint, int rank,
                                                  int ranks) {
    std::vector<std::filesystem::path> files;
    for (std::int64_t shard = rank;; shard += ranks) {
        std::error_code error;
        files.push_back(checkpoint / shard_file_name(shard));
        if (std::filesystem::is_regular_file(files.back(), error)) continue;
        files.pop_back();
        return files;
    }
}

}  // namespace gptrain
