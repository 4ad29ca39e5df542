// Token files of other trainers: llm.c, modded-nanogpt and nanoGPT.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/file.h"

namespace gptrain {

/// The ids of one file, mapped. A file of llm.c or modded-nanogpt begins with 256 integers of 32
/// bits: its kind (20240520: ids of 16 bits, version 1; 20240801: of 32 bits, version 7), its
/// version and the number of ids. A file of nanoGPT has ids alone.
class ForeignTokens {
public:
    /// `raw_bytes`: the size of an id, 2 or 4, in a file without a header; nothing: it has one.
    /// Errors (bad_input) name the file: another kind or version, a size that does not fit the
    /// number of ids, a header in a file that should have none.
    ForeignTokens(const std::filesystem::path& path, std::optional<int> raw_bytes);

    const std::filesystem::path& path() const { return file_.path(); }
    std::int64_t size() const { return size_; }
    std::uint32_t at(std::int64_t index) const;

private:
    MappedFile file_;
    std::int64_t begin_ = 0;  ///< of the ids
    int bytes_ = 2;           ///< of an id
    std::int64_t size_ = 0;
};

}  // namespace gptrain
