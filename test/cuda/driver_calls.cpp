// The arguments of calls that need a device: how the runtime makes streams, and how the driver
// encodes tensor maps.
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "cuda/device/tensor_map.h"
#include "cuda/runtime/runtime.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

struct MadeStream {
    unsigned flags;
    int priority;
    bool operator==(const MadeStream&) const = default;
};

std::vector<MadeStream>& made_streams() {
    static std::vector<MadeStream> streams;
    return streams;
}

/// cuTensorMapEncodeTiled's arguments, without the map.
struct Encoding {
    CUtensorMapDataType type;
    cuuint32_t rank;
    void* address;
    std::vector<cuuint64_t> sizes;
    std::vector<cuuint64_t> stride_bytes;
    std::vector<cuuint32_t> box;
    std::vector<cuuint32_t> steps;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapFloatOOBfill fill;
};

std::optional<Encoding>& last_encoding() {
    static std::optional<Encoding> last;
    return last;
}

CUresult& driver_result() {
    static CUresult result = CUDA_SUCCESS;
    return result;
}

constexpr std::byte mark{42};

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* sizes, const cuuint64_t* stride_bytes,
                      const cuuint32_t* box, const cuuint32_t* steps,
                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion /*promotion*/, CUtensorMapFloatOOBfill fill) {
    last_encoding() = Encoding{type,
                               rank,
                               address,
                               {sizes, sizes + rank},
                               {stride_bytes, stride_bytes + rank - 1},
                               {box, box + rank},
                               {steps, steps + rank},
                               interleave,
                               swizzle,
                               fill};
    std::memset(map, static_cast<int>(mark), sizeof *map);
    return driver_result();
}

}  // namespace

extern "C" {

cudaError_t __wrap_cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t __wrap_cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t __wrap_cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                    unsigned version, unsigned long long flags,
                                                    cudaDriverEntryPointQueryResult* found);

cudaError_t __wrap_cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t __wrap_cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                int priority) {
    *stream = nullptr;
    made_streams().push_back({flags, priority});
    return cudaSuccess;
}

cudaError_t __wrap_cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                    unsigned version, unsigned long long /*flags*/,
                                                    cudaDriverEntryPointQueryResult* found) {
    const bool known = std::string(name) == "cuTensorMapEncodeTiled" && version == 12000;
    *function = known ? reinterpret_cast<void*>(&encode_tiled) : nullptr;
    *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

}  // extern "C"

TEST_CASE("urgent streams have the highest priority, all others the lowest") {
    const Stream usual;
    const Stream urgent(Stream::Priority::urgent);
    CHECK(made_streams() ==
          std::vector<MadeStream>{{cudaStreamNonBlocking, 0}, {cudaStreamNonBlocking, -5}});
}

TEST_CASE("a tensor map is encoded as the kernels read it") {
    alignas(16) static std::byte memory[1 << 16];
    // 3 heads of 5, 4 rows of 6.
    const Tensor tensor = Tensor(memory, DType::bf16, {2, 6, 5, 128}).slice(2, 1, 3).slice(1, 2, 4);
    const TensorMap map = tensor_map(tensor, 32);
    CHECK(map.opaque[0] == mark);
    CHECK(map.opaque[sizeof map.opaque - 1] == mark);
    REQUIRE(last_encoding());
    const Encoding& made = *last_encoding();
    CHECK(made.type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    CHECK(made.rank == 4);
    CHECK(made.address == memory + std::ptrdiff_t{2} * (2 * 5 + 1) * 128);
    CHECK(made.sizes == std::vector<cuuint64_t>{128, 3, 4, 2});
    CHECK(made.stride_bytes == std::vector<cuuint64_t>{256, 5 * 256, 6 * 5 * 256});
    CHECK(made.box == std::vector<cuuint32_t>{64, 1, 32, 1});
    CHECK(made.steps == std::vector<cuuint32_t>{1, 1, 1, 1});
    CHECK(made.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE);
    // swizzle_128, and zeros for rows that do not exist.
    CHECK(made.swizzle == CU_TENSOR_MAP_SWIZZLE_128B);
    CHECK(made.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

    driver_result() = CUDA_ERROR_INVALID_VALUE;
    CHECK(test::contains(test::message_of(ExitCode::bug, [&] { tensor_map(tensor, 32); }),
                         "cuTensorMapEncodeTiled returned 1 for sizes 128 3 4 2"));
    driver_result() = CUDA_SUCCESS;
}

}  // namespace gptrain::cuda
