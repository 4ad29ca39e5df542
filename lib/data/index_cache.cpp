#include "data/index_cache.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <sys/file.h>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/process.h"
#include "base/temporary_file.h"
#include "base/text.h"
#include "comm/mpi_session.h"
#include "data/kept_check.h"

namespace gptrain {
namespace {

constexpr std::int64_t alignment = 64;
constexpr std::string_view index_ending = ".index";

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

Header header_of(std::span<const std::byte> file) {
    return value_at<Header>(file, 0);
}

/// The fault of a file, apart from its checksum; empty if it has none.
std::string find_other_file(std::span<const std::byte> file, const std::string& key,
                            const Layout& layout) {
    if (static_cast<std::int64_t>(file.size()) != layout.total) return "has the wrong size";
    const Header header = header_of(file);
    if (std::memcmp(header.magic, "GPTINDEX", 8) != 0 || header.version != 1) {
        return "is not an index of this version";
    }
    if (header.key_bytes != key.size() ||
        std::memcmp(file.data() + sizeof header, key.data(), key.size()) != 0) {
        return "was made from other data or settings";
    }
    return "";
}

constexpr const char* damaged = "is damaged (checksum)";

/// The fault of a file; empty if it has none.
std::string find_fault(std::span<const std::byte> file, const std::string& key,
                       const Layout& layout) {
    std::string fault = find_other_file(file, key, layout);
    if (fault.empty() && header_of(file).crc != crc_of(file)) fault = damaged;
    return fault;
}

/// A new file under a temporary name, mapped for writing. Removed unless committed.
class MappedOutput {
public:
    MappedOutput(const std::filesystem::path& target, std::int64_t bytes) : MappedOutput(target) {
        reserve(bytes);
        size_ = static_cast<std::size_t>(bytes);
        void* start =
            ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_->descriptor(), 0);
        if (start == MAP_FAILED && errno == ENOMEM)
            fail(ExitCode::usage, target.string(), ": cannot be mapped: ", out_of_memory());
        if (start == MAP_FAILED) fail_errno(errno, name(), ": mmap");
        start_ = static_cast<std::byte*>(start);
    }
    ~MappedOutput() {
        if (start_ != nullptr) ::munmap(start_, size_);
    }

    std::span<std::byte> bytes() const { return {start_, size_}; }

    void commit() {
        if (::msync(start_, size_, MS_SYNC) != 0) fail_errno(errno, name(), ": msync");
        if (::fsync(file_->descriptor()) != 0) fail_errno(errno, name(), ": fsync");
        temporary_.move_to(target_);
        sync_folder(target_.parent_path());
    }

private:
    explicit MappedOutput(const std::filesystem::path& target)
        : target_(target), temporary_([&] {
              const std::filesystem::path name = temporary_path(target);
              file_.emplace(name, File::Mode::update);
              return name;
          }) {}

    std::string name() const { return temporary_.path().string(); }

    /// Reserves disk space; otherwise a full disk would cause a bus error in a store. Checks the
    /// free space first, because some file systems cannot reserve.
    void reserve(std::int64_t bytes) {
        const std::uintmax_t available = std::filesystem::space(target_.parent_path()).available;
        if (static_cast<std::uintmax_t>(bytes) > available) {
            fail_errno(ENOSPC, target_.string(), ": cannot reserve ", human_bytes(bytes),
                       " for the sample order");
        }
        try {
            file_->reserve(bytes);
        } catch (const Error& error) {
            fail(error.code(), target_.string(), ": the sample order: ", error.what());
        }
    }

    std::filesystem::path target_;
    std::optional<File> file_;
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

/// An index file, and how to make it.
struct IndexFile {
    std::filesystem::path path;
    const std::string& key;
    const CachedArrays::Sizes& sizes;
    const CachedArrays::Build& build;
    Layout layout = layout_of(key, sizes);
};

using FindFault = std::string(std::span<const std::byte> file, const std::string& key,
                              const Layout& layout);

/// The file, if it exists and has no fault. `fault` names the fault of an existing file.
std::optional<MappedFile> open_valid(const IndexFile& index, FindFault find, std::string& fault) {
    fault.clear();
    if (!std::filesystem::is_regular_file(index.path)) return std::nullopt;
    std::optional<MappedFile> file(index.path);
    fault = find(file->bytes(), index.key, index.layout);
    if (!fault.empty()) file.reset();
    return file;
}

/// The file, which must exist and have no fault.
MappedFile open_written(const IndexFile& index, FindFault find) {
    std::string fault;
    if (auto file = open_valid(index, find, fault)) return std::move(*file);
    fail(ExitCode::io, index.path.string(), ": just written, ",
         fault.empty() ? "is missing" : fault);
}

/// The unfinished files that killed processes left in the folder.
std::vector<std::filesystem::path> leftovers_in(const std::filesystem::path& folder) {
    constexpr std::chrono::hours unchanged(1);
    const std::string mark = text(index_ending, temporary_mark);
    std::vector<std::filesystem::path> found;
    std::error_code error;
    std::filesystem::directory_iterator entry(folder, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.find(mark) == std::string::npos) continue;
        std::error_code gone;
        const auto changed = entry->last_write_time(gone);
        const bool old =
            !gone && std::filesystem::file_time_type::clock::now() - changed >= unchanged;
        if (old || is_abandoned(entry->path())) found.push_back(entry->path());
    }
    return found;
}

/// Builds the file, which has this fault or is missing, unless another process has just done so.
void build_alone(const IndexFile& index, FindFault find, std::string fault) {
    const BuildLock lock(index.path.parent_path());
    // This does not verify a new file's checksum: all who waited for the lock do, at the same time.
    if (open_valid(index, fault.empty() ? find_other_file : find, fault)) return;
    if (!fault.empty()) warn(index.path.string(), " ", fault, "; rebuilding it");
    build_file(index.path, index.key, index.sizes, index.layout, index.build);
}

/// The file; builds it first if it is missing or faulty.
MappedFile open_or_build(const IndexFile& index, FindFault find) {
    std::string fault;
    if (auto file = open_valid(index, find, fault)) return std::move(*file);
    create_folders(index.path.parent_path());
    build_alone(index, find, fault);
    return open_written(index, find);
}

/// A share's part of the checksum, which an earlier start may have computed.
std::uint32_t recalled_crc(const MappedFile& file, Share share) {
    const FoundNumbers found = check_or_recall_share("sample order", {file.path()}, share, [&] {
        return FoundNumbers{index_crc(file.bytes(), share)};
    });
    return static_cast<std::uint32_t>(found[0]);
}

/// The same by all ranks. They read the file once, each a share of it.
MappedFile open_together(const IndexFile& index, const MpiSession& ranks) {
    const Share share = {ranks.rank(), ranks.size()};
    FindFault* find = find_other_file;
    for (int tries = 0; tries < 2; ++tries) {
        ranks.run_on_first([&] { open_or_build(index, find); });
        std::optional<MappedFile> file;
        std::uint32_t crc = 0;
        ranks.run_on_all([&] {
            file.emplace(open_written(index, find_other_file));
            crc = tries == 0 ? recalled_crc(*file, share) : index_crc(file->bytes(), share);
        });
        const auto all = static_cast<std::uint32_t>(ranks.exclusive_or(crc));
        const bool faulty = all != header_of(file->bytes()).crc;
        if (ranks.max(faulty ? 1 : 0) == 0) return std::move(*file);
        find = find_fault;  // of rank 0: it reads the whole file and rebuilds it
    }
    fail(ExitCode::io, index.path.string(), ": just written, ", damaged);
}

}  // namespace

std::uint32_t index_crc(std::span<const std::byte> file, Share share) {
    const auto counted = file.subspan(crc_begin);
    const IndexRange range = share.of(std::ssize(counted));
    return crc32c_part(counted.subspan(static_cast<std::size_t>(range.begin),
                                       static_cast<std::size_t>(range.size())),
                       static_cast<std::uint64_t>(std::ssize(counted) - range.end));
}

void remove_index_leftovers(const std::filesystem::path& folder) {
    if (leftovers_in(folder).empty()) return;
    const BuildLock lock(folder);
    std::error_code ignored;  // another start may have removed it
    for (const std::filesystem::path& left : leftovers_in(folder))
        std::filesystem::remove(left, ignored);
}

CachedArrays::CachedArrays(const IndexCache& cache, std::string_view name, const std::string& key,
                           const Sizes& sizes, const Build& build)
    : file_([&] {
          const IndexFile index = {
              .path = cache.folder / text(name, "-", name_hash(key), index_ending),
              .key = key,
              .sizes = sizes,
              .build = build};
          return cache.ranks == nullptr ? open_or_build(index, find_fault)
                                        : open_together(index, *cache.ranks);
      }()) {
    const Layout layout = layout_of(key, sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        arrays_.push_back(file_.bytes().subspan(static_cast<std::size_t>(layout.offsets[i]),
                                                static_cast<std::size_t>(sizes[i])));
    }
}

}  // namespace gptrain
