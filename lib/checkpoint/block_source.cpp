#include "checkpoint/block_source.h"

#include <algorithm>
#include <memory>

#include "base/float_values.h"
#include "checkpoint/manifest.h"

namespace gptrain {

namespace {

/// The number of 16-bit values that are widened at a time.
constexpr std::int64_t widened_elements =
    16 * checkpoint_block_bytes / std::int64_t{size_of(DType::f32)};

/// The memory for widened values.
class Widener {
public:
    /// The elements from `begin` on, at most `count` of them, as fp32. `read` returns the bytes of
    /// some of the tensor's elements.
    std::span<const std::byte> elements(const Tensor& tensor, std::int64_t begin,
                                        std::int64_t count, const auto& read) {
        const std::int64_t taken = std::min(count, widened_elements);
        values_.resize(static_cast<std::size_t>(taken));
        to_floats(read(tensor.slice(0, begin, taken)), tensor.dtype(), 0, 1, values_);
        return std::as_bytes(std::span(values_));
    }

private:
    std::vector<float> values_;
};

std::span<const std::byte> bytes_in_memory(const Tensor& host) {
    return {host.data(), static_cast<std::size_t>(host.bytes())};
}

}  // namespace

BlockSource blocks_of(std::vector<Tensor> tensors) {
    return [tensors = std::move(tensors), widener = std::make_shared<Widener>()](
               std::size_t index, std::int64_t offset, std::int64_t bytes) {
        constexpr std::int64_t width = size_of(DType::f32);
        const Tensor& tensor = tensors[index];
        if (tensor.dtype() != DType::f32)
            return widener->elements(tensor, offset / width, bytes / width, bytes_in_memory);
        return std::span<const std::byte>(tensor.data() + offset, static_cast<std::size_t>(bytes));
    };
}

BlockSource blocks_of(Backend& backend, std::span<const HeldState> owned) {
    if (backend.is_host()) return blocks_of(values_of(owned));
    auto buffer = std::make_shared<std::vector<std::byte>>(16 * checkpoint_block_bytes);
    return [&backend, tensors = values_of(owned), buffer, widener = std::make_shared<Widener>()](
               std::size_t index, std::int64_t offset, std::int64_t bytes) {
        constexpr std::int64_t width = size_of(DType::f32);
        const auto download = [&](const Tensor& part) {
            const auto piece = std::span(*buffer).first(static_cast<std::size_t>(part.bytes()));
            backend.download(piece, part);
            return std::span<const std::byte>(piece);
        };
        const Tensor& tensor = tensors[index];
        if (tensor.dtype() != DType::f32)
            return widener->elements(tensor, offset / width, bytes / width, download);
        const std::int64_t taken = std::min(bytes, std::ssize(*buffer));
        return download(tensor.slice(0, offset / width, taken / width));
    };
}

std::vector<Tensor> values_of(std::span<const HeldState> owned) {
    std::vector<Tensor> values;
    for (const HeldState& state : owned)
        values.push_back(state.values);
    return values;
}

}  // namespace gptrain
