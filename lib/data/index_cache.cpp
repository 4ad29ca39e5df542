#include "data/index_cache.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "base/checked.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/process.h"
#include "base/temporary_file.h"

namespace gptrain {
namespace {

constexpr std::int64_t alignment = 64;

struct Header {
    char magic[8];
    std::uint32_t version;
    std::uint32_t crc;
    std::uint64_t key_bytes;
};
static_assert(sizeof(Header) == 24);
constexpr std::size_t crc_begin = 16;

/// Offsets of the arrays in the file.
struct Layout {
    std::vector<std::int64_t> offsets;
    std::int64_t total = 0;
};

Layout layout_of(const std::string& key, const CachedArrays::Sizes& sizes) {
    Layout layout;
    layout.total = round_up(static_cast<std::int64_t>(sizeof(Header) + key.size()), alignment);
    for (const std::int64_t size : sizes) {
        layout.offsets.push_back(layout.total);
        layout.total = round_up(checked_add(layout.total, size), alignment);
    }
    return layout;
}

std::uint32_t crc_of(std::span<const std::byte> file) {
    return crc32c(file.data() + crc_begin, file.size() - crc_begin);
}

/// What is wrong with a file; empty if nothing is.
std::string find_fault(std::span<const std::byte> file, const std::string& key,
                       const Layout& layout) {
    if (static_cast<std::int64_t>(file.size()) != layout.total) return "has the wrong size";
    Header header{};
    std::memcpy(&header, file.data(), sizeof header);
    if (std::memcmp(header.magic, "GPTINDEX", 8) != 0 || header.version != 1) {
        return "is not an index of this version";
    }
    if (header.key_bytes != key.size() ||
        std::memcmp(file.data() + sizeof header, key.data(), key.size()) != 0) {
        return "was made from other data or settings";
    }
    return header.crc == crc_of(file) ? "" : "is damaged (checksum)";
}

/// A new file under a temporary name, mapped for writing. Removed unless committed.
class MappedOutput {
public:
    MappedOutput(const std::filesystem::path& target, std::int64_t bytes) : MappedOutput(target) {
        reserve(bytes);
        size_ = static_cast<std::size_t>(bytes);
        void* start = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
        if (start == MAP_FAILED && errno == ENOMEM)
            fail(ExitCode::usage, target.string(), ": cannot be mapped: ", out_of_memory());
        if (start == MAP_FAILED) fail_errno(errno, name(), ": mmap");
        start_ = static_cast<std::byte*>(start);
    }
    MappedOutput(const MappedOutput&) = delete;
    MappedOutput& operator=(const MappedOutput&) = delete;
    ~MappedOutput() {
        if (start_ != nullptr) ::munmap(start_, size_);
        ::close(descriptor_);
    }

    std::span<std::byte> bytes() const { return {start_, size_}; }

    void commit() {
        if (::msync(start_, size_, MS_SYNC) != 0) fail_errno(errno, name(), ": msync");
        if (::fsync(descriptor_) != 0) fail_errno(errno, name(), ": fsync");
        temporary_.move_to(target_);
        sync_folder(target_.parent_path());
    }

private:
    explicit MappedOutput(const std::filesystem::path& target)
        : target_(target), temporary_([&] {
              std::string name = target.string() + ".XXXXXX";
              descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
              if (descriptor_ < 0) fail_errno(errno, name);
              return std::filesystem::path(name);
          }) {}

    std::string name() const { return temporary_.path().string(); }

    /// Reserves disk space; otherwise a full disk would cause a bus error in a store. Checks the
    /// free space first, because a file system that cannot reserve would be filled up instead.
    void reserve(std::int64_t bytes) const {
        const std::uintmax_t available = std::filesystem::space(target_.parent_path()).available;
        int error = ENOSPC;
        if (static_cast<std::uintmax_t>(bytes) <= available) {
            error = ::posix_fallocate(descriptor_, 0, bytes);
        }
        if (error != 0) {
            fail_errno(error, target_.string(), ": cannot reserve ", human_bytes(bytes),
                       " for the sample order");
        }
    }

    std::filesystem::path target_;
    int descriptor_ = -1;
    TemporaryFile temporary_;
    std::size_t size_ = 0;
    std::byte* start_ = nullptr;
};

void build_file(const std::filesystem::path& path, const std::string& key,
                const CachedArrays::Sizes& sizes, const Layout& layout,
                const CachedArrays::Build& build) {
    MappedOutput output(path, layout.total);
    const std::span<std::byte> file = output.bytes();
    std::vector<std::span<std::byte>> arrays;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        arrays.push_back(file.subspan(static_cast<std::size_t>(layout.offsets[i]),
                                      static_cast<std::size_t>(sizes[i])));
    }
    build(arrays);

    Header header{{'G', 'P', 'T', 'I', 'N', 'D', 'E', 'X'}, 1, 0, key.size()};
    std::memcpy(file.data(), &header, sizeof header);
    std::memcpy(file.data() + sizeof header, key.data(), key.size());
    header.crc = crc_of(file);
    std::memcpy(file.data(), &header, sizeof header);
    output.commit();
}

/// Held while an index is built, so that only one of many processes builds it. The kernel releases
/// it when the process ends, however it ends. On file systems without locks, each process builds
/// its own.
class BuildLock {
public:
    explicit BuildLock(const std::filesystem::path& folder)
        : file_(folder / ".lock", File::Mode::update) {
        while (::flock(file_.descriptor(), LOCK_EX) != 0 && errno == EINTR) {
        }
    }

private:
    File file_;
};

/// The file, if it exists and is valid. If it exists but is invalid, `fault` says why.
std::optional<MappedFile> open_valid(const std::filesystem::path& path, const std::string& key,
                                     const Layout& layout, std::string& fault) {
    fault.clear();
    if (!std::filesystem::is_regular_file(path)) return std::nullopt;
    std::optional<MappedFile> file(path);
    fault = find_fault(file->bytes(), key, layout);
    if (!fault.empty()) file.reset();
    return file;
}

MappedFile open_or_build(const std::filesystem::path& path, const std::string& key,
                         const CachedArrays::Sizes& sizes, const Layout& layout,
                         const CachedArrays::Build& build) {
    std::string fault;
    if (auto file = open_valid(path, key, layout, fault)) return std::move(*file);
    const BuildLock lock(path.parent_path());
    // Another process may have built it while we waited for the lock.
    if (auto file = open_valid(path, key, layout, fault)) return std::move(*file);
    if (!fault.empty()) warn(path.string(), " ", fault, "; rebuilding it");
    build_file(path, key, sizes, layout, build);
    if (auto file = open_valid(path, key, layout, fault)) return std::move(*file);
    fail(ExitCode::io, path.string(), ": just written, ", fault.empty() ? "is missing" : fault);
}

}  // namespace

CachedArrays::CachedArrays(const std::filesystem::path& folder, std::string_view name,
                           const std::string& key, const Sizes& sizes, const Build& build)
    : file_([&] {
          create_folders(folder);
          const auto path = folder / text(name, "-", name_hash(key), ".index");
          return open_or_build(path, key, sizes, layout_of(key, sizes), build);
      }()) {
    const Layout layout = layout_of(key, sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        arrays_.push_back(file_.bytes().subspan(static_cast<std::size_t>(layout.offsets[i]),
                                                static_cast<std::size_t>(sizes[i])));
    }
}

}  // namespace gptrain
