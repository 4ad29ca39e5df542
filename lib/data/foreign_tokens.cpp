#include "data/foreign_tokens.h"

#include "base/bytes.h"
#include "base/error.h"

namespace gptrain {
namespace {

constexpr std::int64_t foreign_header_bytes = 256 * sizeof(std::int32_t);

/// A kind of file with a header.
struct TokenFileKind {
    std::int32_t magic;
    std::int32_t version;
    int id_bytes;
};
constexpr TokenFileKind token_file_kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr std::int32_t question_magic = 20240522;

[[noreturn]] void refuse_tokens(const std::filesystem::path& path, const auto&... parts) {
    fail(ExitCode::bad_input, path.string(), ": ", parts...);
}

MappedFile open_tokens_of_others(const std::filesystem::path& path) {
    if (require_path(path, ExitCode::bad_input, "file") != std::filesystem::file_type::regular)
        refuse_tokens(path, "not a regular file");
    return MappedFile(path);
}

/// The kind of the file; null if it has no header.
const TokenFileKind* kind_of(std::span<const std::byte> bytes) {
    if (std::ssize(bytes) < foreign_header_bytes) return nullptr;
    const auto magic = value_at<std::int32_t>(bytes, 0);
    for (const TokenFileKind& kind : token_file_kinds) {
        if (magic == kind.magic) return &kind;
    }
    return nullptr;
}

}  // namespace

ForeignTokens::ForeignTokens(const std::filesystem::path& path, std::optional<int> raw_bytes)
    : file_(open_tokens_of_others(path)) {
    const auto bytes = file_.bytes();
    const TokenFileKind* kind = kind_of(bytes);
    if (raw_bytes) {
        if (kind != nullptr) refuse_tokens(path, "has the header of llm.c; leave out --raw");
        bytes_ = *raw_bytes;
        if (std::ssize(bytes) % bytes_ != 0)
            refuse_tokens(path, "has ", bytes.size(), " bytes, which is no multiple of ", bytes_);
        size_ = std::ssize(bytes) / bytes_;
        return;
    }
    if (kind == nullptr) {
        const bool questions = std::ssize(bytes) >= foreign_header_bytes &&
                               value_at<std::int32_t>(bytes, 0) == question_magic;
        refuse_tokens(path, questions ? "holds questions of llm.c, no text"
                                      : "has no header of llm.c; if it holds ids alone, as of "
                                        "nanoGPT, give their type with --raw");
    }
    if (const auto version = value_at<std::int32_t>(bytes, 4); version != kind->version)
        refuse_tokens(path, "has version ", version, " of its format, but ", kind->version,
                      " is read");
    begin_ = foreign_header_bytes;
    bytes_ = kind->id_bytes;
    size_ = value_at<std::int32_t>(bytes, 8);
    if (size_ < 0 || std::ssize(bytes) != begin_ + size_ * bytes_)
        refuse_tokens(path, "has ", bytes.size(), " bytes, but its header states ", size_,
                      " ids of ", bytes_, " bytes; copy it again");
}

std::uint32_t ForeignTokens::at(std::int64_t index) const {
    const std::int64_t begin = begin_ + index * bytes_;
    return bytes_ == 2 ? value_at<std::uint16_t>(file_.bytes(), begin)
                       : value_at<std::uint32_t>(file_.bytes(), begin);
}

}  // namespace gptrain
