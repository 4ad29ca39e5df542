#include "checkpoint/block_source.h"

#include <algorithm>
#include <memory>

#include "checkpoint/manifest.h"

namespace gptrain {

BlockSource blocks_of(std::vector<Tensor> tensors) {
    return
        [tensors = std::move(tensors)](std::size_t index, std::int64_t offset, std::int64_t bytes) {
            return std::span<const std::byte>(tensors[index].data() + offset,
                                              static_cast<std::size_t>(bytes));
        };
}

BlockSource blocks_of(Backend& backend, std::span<const OwnedState> owned) {
    if (backend.is_host()) return blocks_of(values_of(owned));
    auto buffer = std::make_shared<std::vector<std::byte>>(16 * checkpoint_block_bytes);
    return [&backend, tensors = values_of(owned), buffer](std::size_t index, std::int64_t offset,
                                                          std::int64_t bytes) {
        constexpr std::int64_t width = size_of(DType::f32);
        const auto piece = std::span(*buffer).first(
            static_cast<std::size_t>(std::min(bytes, std::ssize(*buffer))));
        backend.download(piece, tensors[index].slice(0, offset / width, std::ssize(piece) / width));
        return std::span<const std::byte>(piece);
    };
}

std::vector<Tensor> values_of(std::span<const OwnedState> owned) {
    std::vector<Tensor> values;
    for (const OwnedState& state : owned)
        values.push_back(state.values);
    return values;
}

}  // namespace gptrain
