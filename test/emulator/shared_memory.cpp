#include "emulator/shared_memory.h"

#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

namespace gptrain::emulator {
namespace {

constexpr int only_user = 0600;

struct Mapping {
    std::string name;
    std::int64_t bytes = 0;
};
/// The mapped memory of this process, by its address.
std::map<const std::byte*, Mapping>& mappings() {
    static std::map<const std::byte*, Mapping> all;
    return all;
}

std::size_t unsigned_size(std::int64_t bytes) {
    return static_cast<std::size_t>(bytes);
}

}  // namespace

std::byte* map_shared(const std::string& name, std::int64_t bytes, Shared how) {
    const bool makes = how == Shared::made;
    const int file = shm_open(name.c_str(), makes ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, only_user);
    GPTRAIN_CHECK(file >= 0, "shm_open of ", name);
    if (makes) GPTRAIN_CHECK(ftruncate(file, bytes) == 0, "ftruncate of ", name);
    void* memory = mmap(nullptr, unsigned_size(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    GPTRAIN_CHECK(memory != MAP_FAILED, "mmap of ", name);
    auto* data = static_cast<std::byte*>(memory);
    mappings()[data] = {name, bytes};
    return data;
}

void unmap_shared(std::byte* data) {
    munmap(data, unsigned_size(mappings().at(data).bytes));
    mappings().erase(data);
}

void remove_name(const std::string& name) {
    GPTRAIN_CHECK(shm_unlink(name.c_str()) == 0, "shm_unlink of ", name);
}

std::string new_shared_name() {
    static int count = 0;
    return text("/gptrain-emulated-", getpid(), "-", count++);
}

std::string shared_handle(const std::byte* data) {
    const Mapping& own = mappings().at(data);
    return text(own.name, " ", own.bytes);
}

std::byte* map_handle(const std::string& handle) {
    const std::size_t blank = handle.find(' ');
    return map_shared(handle.substr(0, blank), parse_int(handle.substr(blank + 1)).value(),
                      Shared::opened);
}

const std::string& shared_name(const std::byte* data) {
    return mappings().at(data).name;
}
std::int64_t shared_bytes(const std::byte* data) {
    return mappings().at(data).bytes;
}

}  // namespace gptrain::emulator
