#include "cuda/runtime/peer_memory.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "base/error.h"
#include "cuda/runtime/call.h"

namespace gptrain::cuda {
namespace {

/// A function of the driver, obtained through the runtime to avoid linking against the driver.
template <class Function>
Function* driver_function(const char* name) {
    constexpr unsigned since_version = 12000;
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &function, since_version, cudaEnableDefault, &found);
    if (status == cudaSuccess && found == cudaDriverEntryPointSuccess && function != nullptr)
        return reinterpret_cast<Function*>(function);
    static_cast<void>(cudaGetLastError());
    fail(ExitCode::usage, "the NVIDIA driver has no ", name,
         "; install one for CUDA 12.0 or newer");
}

void check_driver(CUresult result, std::string_view call) {
    if (result == CUDA_SUCCESS) return;
    fail(result == CUDA_ERROR_NOT_SUPPORTED ? ExitCode::usage : ExitCode::bug, "CUDA: ", call,
         " returned ", static_cast<int>(result));
}

[[noreturn]] void fail_shared(const std::string& name, std::string_view call) {
    fail(ExitCode::io, "/dev/shm", name, ": ", call, ": ", std::strerror(errno));
}

}  // namespace

std::string fault_of_peer_memory() {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    int shares = 0;
    check_cuda(cudaDeviceGetAttribute(&shares, cudaDevAttrIpcEventSupport, device),
               "cudaDeviceGetAttribute");
    return shares != 0 ? "" : "the GPU does not share memory between processes (CUDA IPC)";
}

PeerMemory::PeerMemory(std::int64_t bytes) : data_(allocate(bytes, MemorySpace::device)) {}
PeerMemory::~PeerMemory() {
    if (data_ != nullptr) release(data_, MemorySpace::device);
}

std::string PeerMemory::handle() const {
    cudaIpcMemHandle_t handle;
    check_cuda(cudaIpcGetMemHandle(&handle, data_), "cudaIpcGetMemHandle");
    return {reinterpret_cast<const char*>(&handle), sizeof handle};
}

OpenedMemory::OpenedMemory(const std::string& handle) {
    cudaIpcMemHandle_t opened;
    GPTRAIN_CHECK(handle.size() == sizeof opened, "a handle of ", handle.size(), " bytes");
    std::memcpy(&opened, handle.data(), sizeof opened);
    void* data = nullptr;
    check_cuda(cudaIpcOpenMemHandle(&data, opened, cudaIpcMemLazyEnablePeerAccess),
               "cudaIpcOpenMemHandle");
    data_ = static_cast<std::byte*>(data);
}
OpenedMemory::~OpenedMemory() {
    // A failed device has already reported its failure.
    if (data_ != nullptr) static_cast<void>(cudaIpcCloseMemHandle(data_));
}

PeerFlags::PeerFlags(std::string name, std::int64_t count, Role role)
    : name_(std::move(name)), bytes_(count * static_cast<std::int64_t>(sizeof(std::uint32_t))) {
    const bool makes = role == Role::maker;
    const int file = shm_open(name_.c_str(), makes ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
    if (file < 0) fail_shared(name_, "shm_open");
    try {
        map(file, makes);
    } catch (...) {
        // A failure leaves nothing behind.
        if (makes) shm_unlink(name_.c_str());
        if (flags_ != nullptr) munmap(flags_, static_cast<std::size_t>(bytes_));
        throw;
    }
}

void PeerFlags::map(int file, bool makes) {
    // fallocate, because writing to a hole of a full file system would end the process.
    const int full = makes ? posix_fallocate(file, 0, bytes_) : 0;
    void* memory = full == 0 ? mmap(nullptr, static_cast<std::size_t>(bytes_),
                                    PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                             : MAP_FAILED;
    const int fault = full != 0 ? full : errno;
    close(file);
    errno = fault;
    if (memory == MAP_FAILED) fail_shared(name_, full != 0 ? "posix_fallocate" : "mmap");
    flags_ = static_cast<std::uint32_t*>(memory);
    check_cuda(cudaHostRegister(flags_, static_cast<std::size_t>(bytes_),
                                cudaHostRegisterMapped | cudaHostRegisterPortable),
               "cudaHostRegister");
    void* address = nullptr;
    check_cuda(cudaHostGetDevicePointer(&address, flags_, 0), "cudaHostGetDevicePointer");
    device_address_ = reinterpret_cast<std::uint64_t>(address);
}

PeerFlags::~PeerFlags() {
    static_cast<void>(cudaHostUnregister(flags_));
    munmap(flags_, static_cast<std::size_t>(bytes_));
}

void PeerFlags::unlink() const {
    if (shm_unlink(name_.c_str()) != 0) fail_shared(name_, "shm_unlink");
}

namespace {

/// The address of flag `number`.
CUdeviceptr address_of(std::uint64_t flags, std::int64_t number) {
    return flags + sizeof(std::uint32_t) * static_cast<std::uint64_t>(number);
}

/// One call for all of these, in their order.
void run_batch(std::vector<CUstreamBatchMemOpParams>& operations, const Stream& stream) {
    static auto* const batch = driver_function<decltype(cuStreamBatchMemOp)>("cuStreamBatchMemOp");
    if (operations.empty()) return;
    constexpr unsigned no_flags = 0;
    check_driver(batch(stream.handle(), static_cast<unsigned>(operations.size()), operations.data(),
                       no_flags),
                 "cuStreamBatchMemOp");
}

}  // namespace

void PeerFlags::write(std::span<const Value> values, const Stream& stream) const {
    std::vector<CUstreamBatchMemOpParams> operations;
    for (const Value& each : values) {
        CUstreamBatchMemOpParams& operation = operations.emplace_back();
        operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        operation.writeValue.address = address_of(device_address_, each.flag);
        operation.writeValue.value = each.value;
        operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    run_batch(operations, stream);
}

void PeerFlags::wait(std::span<const Value> values, const Stream& stream) const {
    std::vector<CUstreamBatchMemOpParams> operations;
    for (const Value& each : values) {
        CUstreamBatchMemOpParams& operation = operations.emplace_back();
        operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        operation.waitValue.address = address_of(device_address_, each.flag);
        operation.waitValue.value = each.value;
        operation.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    }
    run_batch(operations, stream);
}

void PeerFlags::set(std::int64_t flag, std::uint32_t value) const {
    std::atomic_ref(flags_[flag]).store(value, std::memory_order_release);
}
std::uint32_t PeerFlags::value(std::int64_t flag) const {
    return std::atomic_ref(flags_[flag]).load(std::memory_order_acquire);
}

}  // namespace gptrain::cuda
