#include "checkpoint/load.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/float_values.h"
#include "base/parallel_for.h"
#include "checkpoint/element_reader.h"

namespace gptrain {
namespace {

// Buffered as fp32 before upload, if the backend does not compute in host memory or the values are
// in 16 bits.
constexpr std::int64_t staged_elements = 16 * block_elements;

std::span<std::byte> host_bytes(const Tensor& tensor) {
    return {tensor.data(), static_cast<std::size_t>(tensor.bytes())};
}

std::span<float> floats(std::span<std::byte> bytes) {
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

/// A part of a shard, at most one block, and its destination.
struct Piece {
    Shard part;
    const TensorRecord* tensor;
    std::span<std::byte> to;
    Tensor values;  ///< the same place in the backend
    bool staged = false;
};

class StateLoader {
public:
    StateLoader(const std::filesystem::path& folder, const Manifest& manifest, Backend& backend)
        : folder_(folder), manifest_(manifest), backend_(backend) {
        for (const TensorRecord& tensor : manifest.tensors)
            tensors_.emplace(Name(tensor.group, tensor.name), &tensor);
    }

    void load(const NamedState& state) {
        const Shard& needed = state.shard;
        const TensorRecord& tensor = find(state);
        const Tensor values = state.values.view({needed.elements()});
        GPTRAIN_CHECK(is_stored(values.dtype()), state.group, "/", needed.name);
        for (std::int64_t at = 0; at < needed.elements(); at += block_elements) {
            Piece piece{needed, &tensor, {}, {}};
            piece.staged = !backend_.is_host() || values.dtype() != DType::f32;
            piece.part.flat_begin += at;
            piece.part.flat_end = std::min(piece.part.flat_begin + block_elements, needed.flat_end);
            piece.values = values.slice(0, at, piece.part.elements());
            add(std::move(piece));
        }
    }

    /// Fills everything passed to `load`.
    void finish() {
        // If the mesh has changed, neighbouring pieces share blocks: each thread takes up to
        // `longest` consecutive ones, and all threads get equally many rounds.
        constexpr std::int64_t longest = 16;
        const std::int64_t count = std::ssize(pieces_);
        if (count == 0) return;
        const std::int64_t rounds = div_ceil(count, longest * checkpoint_threads);
        const std::int64_t row = div_ceil(count, rounds * checkpoint_threads);
        parallel_for(div_ceil(count, row), checkpoint_threads, [&](std::int64_t i) {
            const auto begin = static_cast<std::size_t>(i * row);
            fill(std::span(pieces_).subspan(begin).first(
                static_cast<std::size_t>(std::min(row, count - i * row))));
        });
        for (const Piece& piece : pieces_) {
            if (piece.staged)
                backend_.upload(piece.values, from_floats(floats(piece.to), piece.values.dtype()));
        }
        pieces_.clear();
        staged_ = 0;
    }

private:
    void add(Piece piece) {
        const std::int64_t elements = piece.part.elements();
        if (!piece.staged) {
            piece.to = host_bytes(piece.values);
        } else {
            if (!staging_) staging_ = std::make_unique_for_overwrite<float[]>(staged_elements);
            if (staged_ + elements > staged_elements) finish();
            piece.to = std::as_writable_bytes(
                std::span(staging_.get() + staged_, static_cast<std::size_t>(elements)));
            staged_ += elements;
        }
        pieces_.push_back(std::move(piece));
    }

    void fill(std::span<const Piece> pieces) const {
        ElementReader reader(folder_, manifest_);
        for (const Piece& piece : pieces)
            reader.read(piece.part, *piece.tensor, piece.to);
    }

    const TensorRecord& find(const NamedState& state) const {
        const auto found = tensors_.find(Name(state.group, state.shard.name));
        if (found == tensors_.end()) {
            fail(ExitCode::bad_input, folder_.string(), ": has no tensor ", state.group, "/",
                 state.shard.name);
        }
        const TensorRecord& tensor = *found->second;
        if (tensor.shape != state.shard.global) {
            fail(ExitCode::bad_input, folder_.string(), ": tensor ", state.group, "/",
                 state.shard.name, " has shape ", tensor.shape.to_text(),
                 ", but the model's has shape ", state.shard.global.to_text());
        }
        return tensor;
    }

    using Name = std::pair<std::string_view, std::string_view>;

    std::filesystem::path folder_;
    const Manifest& manifest_;
    std::map<Name, const TensorRecord*> tensors_;
    Backend& backend_;
    std::vector<Piece> pieces_;
    std::unique_ptr<float[]> staging_;  ///< made when the first piece needs it
    std::int64_t staged_ = 0;           ///< elements in use
};

}  // namespace

void load_state(const std::filesystem::path& folder, const Manifest& manifest, Backend& backend,
                const StateSource& needed) {
    StateLoader loader(folder, manifest, backend);
    needed([&](const NamedState& state) {
        if (state.shard.elements() > 0) loader.load(state);
    });
    loader.finish();
}

}  // namespace gptrain
