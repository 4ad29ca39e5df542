// The part of a machine's memory from which pinned memory is taken.
#include "cuda/runtime/memory_node.h"

#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <fstream>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "catch.h"
#include "cuda/runtime/runtime.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

void write(const std::filesystem::path& file, const std::string& line) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << line << "\n";
}

/// Of this thread; -1 where the system has none.
int policy() {
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) == 0 ? mode : -1;
}

int& policy_while_pinning() {
    static int mode = -1;
    return mode;
}

}  // namespace

extern "C" {

cudaError_t __wrap_cudaGetDevice(int* index);
cudaError_t __wrap_cudaDeviceGetPCIBusId(char* name, int size, int index);
cudaError_t __wrap_cudaHostAlloc(void** data, std::size_t bytes, unsigned flags);

cudaError_t __wrap_cudaGetDevice(int* index) {
    *index = 0;
    return cudaSuccess;
}

cudaError_t __wrap_cudaDeviceGetPCIBusId(char* name, int size, int /*index*/) {
    std::strncpy(name, "0000:3B:00.0", static_cast<std::size_t>(size));
    return cudaSuccess;
}

cudaError_t __wrap_cudaHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
    policy_while_pinning() = policy();
    static std::byte memory[64];
    *data = memory;
    return bytes <= sizeof memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // extern "C"

TEST_CASE("a device's memory node is the one that the system names, if there are several") {
    const test::TempFolder root;
    const auto node = [&] { return memory_node("0000:3B:00.0", root.path()); };
    CHECK(!node());
    const std::filesystem::path online = root.path() / "sys/devices/system/node/online";
    const std::filesystem::path of_device =
        root.path() / "sys/bus/pci/devices/0000:3b:00.0/numa_node";
    write(online, "0-1");
    CHECK(!node());
    write(of_device, "1");
    CHECK(node() == 1);
    write(of_device, "-1");
    CHECK(!node());
    write(of_device, "1");
    write(online, "0");
    CHECK(!node());
}

TEST_CASE("pages come from a node for a while") {
    const int before = policy();
    {
        const PreferredMemoryNode near(0);
        CHECK((policy() == MPOL_PREFERRED || before == -1));
    }
    CHECK(policy() == before);
    // Node 900 does not exist: as for a container that may not use it, nothing changes.
    const PreferredMemoryNode absent(900);
    CHECK(policy() == before);
}

TEST_CASE("pinned memory is taken from the node of the device") {
    CHECK(allocate(64, MemorySpace::host) != nullptr);
    // The device of the test is none of this machine.
    CHECK(policy_while_pinning() == policy());
    CHECK(test::contains(test::message_of(ExitCode::usage, [] { allocate(65, MemorySpace::host); }),
                         "not enough host memory: cannot pin 65 B for the GPU"));
}

}  // namespace gptrain::cuda
