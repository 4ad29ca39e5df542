// Files of a checkpoint that is being saved: the space of all is reserved before any data is
// written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/file.h"

namespace gptrain {

/// Creates a checkpoint file and reserves all of its disk space.
File create_reserved(const std::filesystem::path& path, std::int64_t bytes);

/// Writes all of a reserved file and makes it durable.
void write_whole(File file, std::string_view contents);

}  // namespace gptrain
