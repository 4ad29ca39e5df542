#include "emulator/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace gptrain {

std::string emulator::objection_to(const cuda::TensorMapRequest& request) {
    const auto address = reinterpret_cast<std::uintptr_t>(request.data);
    if (request.data == nullptr || address % 16 != 0)
        return "the address is not a multiple of 16 bytes";
    constexpr std::uint64_t most_elements = std::uint64_t{1} << 32;
    constexpr std::uint64_t element_bytes = 2;
    std::uint64_t inner_bytes = element_bytes;  // the stride of the dim before
    for (int i = 0; i < 4; ++i) {
        const std::uint64_t size = request.sizes[i];
        if (size == 0 || size > most_elements) return text("size ", i, " is ", size);
        const std::uint32_t box = request.box[i];
        if (box == 0 || box > 256) return text("box ", i, " is ", box);
        if (i == 3) break;
        const std::uint64_t stride = request.stride_bytes[i];
        if (stride % 16 != 0 || stride >> 40 != 0) return text("stride ", i, " is ", stride);
        // "Each following dimension specified includes previous dimension stride."
        if (stride < inner_bytes * size || stride % inner_bytes != 0)
            return text("stride ", i, " is ", stride, " after ", size, " times ", inner_bytes);
        inner_bytes = stride;
    }
    const std::uint64_t box_bytes = request.box[0] * element_bytes;
    if (box_bytes % 16 != 0 || box_bytes > 128) return text("rows of a box have ", box_bytes);
    return {};
}

cuda::TensorMapRequest emulator::decoded(const cuda::TensorMap& map) {
    cuda::TensorMapRequest request;
    std::memcpy(&request, map.opaque, sizeof request);
    return request;
}

cuda::TensorMap cuda::encode(const TensorMapRequest& request) {
    const std::string objection = emulator::objection_to(request);
    GPTRAIN_CHECK(objection.empty(), "the driver makes no tensor map: ", objection);
    TensorMap map;
    static_assert(sizeof request <= sizeof map);
    std::memcpy(map.opaque, &request, sizeof request);
    return map;
}

}  // namespace gptrain
