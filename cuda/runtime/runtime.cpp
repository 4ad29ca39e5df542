#include "cuda/runtime/runtime.h"

#include <array>
#include <optional>
#include <unordered_map>

#include "base/text.h"
#include "cuda/runtime/call.h"
#include "cuda/runtime/memory_node.h"
#include "cuda/runtime/probe.h"

namespace gptrain::cuda {
namespace {

/// The shared memory that a block gets without opting in to more.
constexpr std::int64_t default_shared_bytes = 48 * 1024;

std::string uuid_text(const cudaUUID_t& uuid) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string result = "GPU-";
    for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) result += '-';
        const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
        result += digits[byte >> 4];
        result += digits[byte & 15];
    }
    return result;
}

}  // namespace

int visible_device_count() {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    static_cast<void>(cudaGetLastError());
    return 0;
}

DeviceProperties open_device(int index) {
    const DeviceProbe probe = probe_device(index);
    if (probe.state != DeviceState::usable) {
        fail(ExitCode::usage, "device: cuda: ", probe.reason,
             "; device: cpu runs on the CPU, slowly");
    }
    check_cuda(cudaSetDevice(index), "cudaSetDevice");
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    return {
        .index = index,
        .name = properties.name,
        .uuid = uuid_text(properties.uuid),
        .major = properties.major,
        .minor = properties.minor,
        .multiprocessors = properties.multiProcessorCount,
        .shared_bytes = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin),
        .multiprocessor_bytes = static_cast<std::int64_t>(properties.sharedMemPerMultiprocessor),
        .l2_bytes = properties.l2CacheSize,
        .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)};
}

// ---- streams and events -------------------------------------------------------------------------

Stream::Stream(Priority priority) {
    int least = 0;
    int greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
               "cudaDeviceGetStreamPriorityRange");
    check_cuda(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking,
                                            priority == Priority::urgent ? greatest : least),
               "cudaStreamCreate");
}

Stream::~Stream() {
    if (handle_ != nullptr) cudaStreamDestroy(handle_);
}

void Stream::synchronize() const {
    check_cuda(cudaStreamSynchronize(handle_), "waiting for the device");
}

void Stream::wait(const Event& event) const {
    check_cuda(cudaStreamWaitEvent(handle_, event.handle(), 0), "cudaStreamWaitEvent");
}

Event::Event(Purpose purpose) {
    const unsigned flags = purpose == Purpose::time ? cudaEventDefault : cudaEventDisableTiming;
    check_cuda(cudaEventCreateWithFlags(&handle_, flags), "cudaEventCreate");
}

Event::~Event() {
    if (handle_ != nullptr) cudaEventDestroy(handle_);
}

void Event::record(const Stream& stream) const {
    check_cuda(cudaEventRecord(handle_, stream.handle()), "cudaEventRecord");
}

void Event::synchronize() const {
    check_cuda(cudaEventSynchronize(handle_), "waiting for the device");
}

bool Event::done() const {
    const cudaError_t status = cudaEventQuery(handle_);
    if (status == cudaErrorNotReady) {
        static_cast<void>(cudaGetLastError());
        return false;
    }
    check_cuda(status, "cudaEventQuery");
    return true;
}

double Event::milliseconds_since(const Event& start) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, start.handle(), handle_),
               "cudaEventElapsedTime");
    return static_cast<double>(milliseconds);
}

// ---- memory -------------------------------------------------------------------------------------

namespace {

/// Of this thread's device.
std::optional<int> node_of_device() {
    int index = 0;
    check_cuda(cudaGetDevice(&index), "cudaGetDevice");
    std::array<char, 32> pci{};
    check_cuda(cudaDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), index),
               "cudaDeviceGetPCIBusId");
    return memory_node(pci.data());
}

/// Pinned memory near the device. A process uses one device.
cudaError_t pin(void** data, std::size_t size) {
    static const std::optional<int> node = node_of_device();
    const PreferredMemoryNode near_device(node);
    return cudaHostAlloc(data, size, cudaHostAllocPortable);
}

}  // namespace

std::byte* allocate(std::int64_t bytes, MemorySpace space) {
    if (bytes == 0) return nullptr;
    void* data = nullptr;
    const bool on_device = space == MemorySpace::device;
    const auto size = static_cast<std::size_t>(bytes);
    const cudaError_t status = on_device ? cudaMalloc(&data, size) : pin(&data, size);
    if (status == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());
        if (!on_device)
            fail(ExitCode::usage, "not enough host memory: cannot pin ", human_bytes(bytes),
                 " for the GPU");
        const MemoryInfo memory = memory_info();
        fail(ExitCode::usage, "not enough GPU memory: cannot allocate ", human_bytes(bytes), ", ",
             human_bytes(memory.free), " of ", human_bytes(memory.total),
             " free; use a smaller model, micro_batch_size or seq_length");
    }
    check_cuda(status, on_device ? "cudaMalloc" : "cudaHostAlloc");
    return static_cast<std::byte*>(data);
}

void release(std::byte* data, MemorySpace space) noexcept {
    // Errors cannot be reported here; a failed device is reported elsewhere.
    static_cast<void>(space == MemorySpace::device ? cudaFree(data) : cudaFreeHost(data));
}

MemoryInfo memory_info() {
    std::size_t free = 0;
    std::size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {.free = static_cast<std::int64_t>(free), .total = static_cast<std::int64_t>(total)};
}

void copy(void* to, const void* from, std::int64_t bytes, const Stream& stream) {
    if (bytes == 0) return;
    check_cuda(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                               stream.handle()),
               "cudaMemcpyAsync");
}

void copy_rows(const RowCopy& rows, const Stream& stream) {
    if (rows.row_bytes == 0 || rows.rows == 0) return;
    check_cuda(
        cudaMemcpy2DAsync(rows.to, static_cast<std::size_t>(rows.to_stride), rows.from,
                          static_cast<std::size_t>(rows.from_stride),
                          static_cast<std::size_t>(rows.row_bytes),
                          static_cast<std::size_t>(rows.rows), cudaMemcpyDefault, stream.handle()),
        "cudaMemcpy2DAsync");
}

void set_bytes(void* to, int value, std::int64_t bytes, const Stream& stream) {
    if (bytes == 0) return;
    check_cuda(cudaMemsetAsync(to, value, static_cast<std::size_t>(bytes), stream.handle()),
               "cudaMemsetAsync");
}

// ---- launches -----------------------------------------------------------------------------------

namespace {

/// Lets a kernel have this much shared memory. A process uses one device, so once is enough.
void allow_shared_bytes(const void* kernel, std::int64_t bytes) {
    thread_local std::unordered_map<const void*, std::int64_t> allowed;
    std::int64_t& most = allowed[kernel];
    if (bytes <= most) return;
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)),
               "cudaFuncSetAttribute");
    most = bytes;
}

}  // namespace

void launch_kernel(const void* kernel, const LaunchShape& shape, void** arguments,
                   const Stream& stream) {
    if (shape.blocks == 0 || shape.blocks_y == 0 || shape.blocks_z == 0) return;
    GPTRAIN_CHECK(shape.blocks <= INT32_MAX && shape.blocks_y <= 65535 && shape.blocks_z <= 65535,
                  "a grid of ", shape.blocks, " x ", shape.blocks_y, " x ", shape.blocks_z);
    GPTRAIN_CHECK(shape.blocks % shape.cluster_blocks == 0, shape.blocks, " blocks in clusters of ",
                  shape.cluster_blocks);
    if (shape.shared_bytes > default_shared_bytes) allow_shared_bytes(kernel, shape.shared_bytes);
    const dim3 grid(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.blocks_y),
                    static_cast<unsigned>(shape.blocks_z));
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(shape.cluster_blocks), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
    config.stream = stream.handle();
    config.attrs = &cluster;
    // Devices before 9.0 have no clusters.
    config.numAttrs = shape.cluster_blocks > 1 ? 1 : 0;
    check_cuda(cudaLaunchKernelExC(&config, kernel, arguments), "cudaLaunchKernelExC");
}

}  // namespace gptrain::cuda
