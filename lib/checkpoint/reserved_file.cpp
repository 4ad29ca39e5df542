#include "checkpoint/reserved_file.h"

#include <span>

namespace gptrain {

File create_reserved(const std::filesystem::path& path, std::int64_t bytes) {
    File file(path, File::Mode::create);
    file.reserve(bytes);
    return file;
}

void write_whole(File file, std::string_view contents) {
    file.write_at(0, std::as_bytes(std::span(contents)));
    file.sync();
    file.close();
}

}  // namespace gptrain
