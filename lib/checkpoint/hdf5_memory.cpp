#include "checkpoint/hdf5_memory.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif

#include "checkpoint/hdf5_handle.h"

namespace gptrain {
namespace {

constexpr std::int64_t page_bytes = 4096;

/// Calls visit(page, offset in the page, offset in the range, bytes) for each page that has bytes
/// of a range. A page is named by its offset.
void for_each_page(std::int64_t offset, std::int64_t bytes, const auto& visit) {
    for (std::int64_t done = 0; done < bytes;) {
        const std::int64_t inside = (offset + done) % page_bytes;
        const std::int64_t count = std::min(bytes - done, page_bytes - inside);
        visit(offset + done - inside, inside, done, static_cast<std::size_t>(count));
        done += count;
    }
}

/// The driver's part of an access list.
struct DriverInfo {
    SparseFile* file;
};

struct OpenFile {
    H5FD_t base = {};  ///< the library's part, which comes first
    SparseFile* file = nullptr;
    haddr_t end_of_addresses = 0;
};

OpenFile& opened(H5FD_t* file) {
    return *reinterpret_cast<OpenFile*>(file);
}
const OpenFile& opened(const H5FD_t* file) {
    return *reinterpret_cast<const OpenFile*>(file);
}

H5FD_t* open_file(const char* /*name*/, unsigned flags, hid_t access, haddr_t /*most*/) {
    const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
    if (info == nullptr) return nullptr;
    auto file = std::unique_ptr<OpenFile>(new (std::nothrow) OpenFile);
    if (!file) return nullptr;
    file->file = info->file;
    if ((flags & H5F_ACC_TRUNC) != 0) file->file->resize(0);
    return &file.release()->base;
}

herr_t close_file(H5FD_t* file) {
    delete &opened(file);
    return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
    const std::less<SparseFile*> before;
    return before(opened(a).file, opened(b).file) ? -1 : before(opened(b).file, opened(a).file);
}

/// The abilities of a file on a disk, which decide the layout.
herr_t query(const H5FD_t* /*file*/, unsigned long* flags) {
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

haddr_t end_of_addresses(const H5FD_t* file, H5FD_mem_t /*type*/) {
    return opened(file).end_of_addresses;
}

herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
    opened(file).end_of_addresses = end;
    return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t /*type*/) {
    return static_cast<haddr_t>(opened(file).file->size());
}

herr_t read(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t offset,
            std::size_t bytes, void* out) {
    opened(file).file->read_at(static_cast<std::int64_t>(offset),
                               {static_cast<std::byte*>(out), bytes});
    return 0;
}

herr_t write(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t offset,
             std::size_t bytes, const void* from) {
    try {
        opened(file).file->write_at(static_cast<std::int64_t>(offset),
                                    {static_cast<const std::byte*>(from), bytes});
        return 0;
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

herr_t truncate(H5FD_t* file, hid_t /*transfer*/, hbool_t /*closing*/) {
    opened(file).file->resize(static_cast<std::int64_t>(opened(file).end_of_addresses));
    return 0;
}

H5FD_class_t driver_class() {
    constexpr H5FD_mem_t lists[] = H5FD_FLMAP_DICHOTOMY;
    H5FD_class_t driver = {};
#ifdef H5FD_CLASS_VERSION
    driver.version = H5FD_CLASS_VERSION;
    driver.value = 256;  // the first for drivers that nobody registered
#endif
    driver.name = "gptrain_memory";
    driver.maxaddr = (haddr_t{1} << 63) - 1;
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(DriverInfo);
    driver.open = open_file;
    driver.close = close_file;
    driver.cmp = compare;
    driver.query = query;
    driver.get_eoa = end_of_addresses;
    driver.set_eoa = set_end_of_addresses;
    driver.get_eof = end_of_file;
    driver.read = read;
    driver.write = write;
    driver.truncate = truncate;
    std::copy(std::begin(lists), std::end(lists), driver.fl_map);
    return driver;
}

}  // namespace

void SparseFile::resize(std::int64_t bytes) {
    pages_.erase(pages_.lower_bound(bytes), pages_.end());
    if (const std::int64_t inside = bytes % page_bytes; bytes < size_ && inside > 0) {
        const auto last = pages_.find(bytes - inside);
        if (last != pages_.end())
            std::fill(last->second.begin() + inside, last->second.end(), '\0');
    }
    size_ = bytes;
}

void SparseFile::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
    for_each_page(offset, std::ssize(bytes), [&](auto page, auto inside, auto done, auto count) {
        std::string& contents = pages_[page];
        contents.resize(page_bytes);
        std::memcpy(contents.data() + inside, bytes.data() + done, count);
    });
    size_ = std::max(size_, offset + std::ssize(bytes));
}

void SparseFile::read_at(std::int64_t offset, std::span<std::byte> bytes) const {
    for_each_page(offset, std::ssize(bytes), [&](auto page, auto inside, auto done, auto count) {
        const auto found = pages_.find(page);
        if (found != pages_.end()) {
            std::memcpy(bytes.data() + done, found->second.data() + inside, count);
        } else {
            std::memset(bytes.data() + done, 0, count);
        }
    });
}

void keep_in_memory(hid_t access, SparseFile& file, const std::string& subject) {
    // Registered until the program ends: to close a file, the library drops the file's reference to
    // the driver and then calls the driver.
    static const hid_t registered = [&] {
        const H5FD_class_t driver = driver_class();
        return check_hdf5(H5FDregister(&driver), "H5FDregister", subject);
    }();
    const DriverInfo info = {&file};
    check_hdf5(H5Pset_driver(access, registered, &info), "H5Pset_driver", subject);
}

}  // namespace gptrain
