#include "checkpoint/load.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "checkpoint/block.h"
#include "checkpoint/overlap.h"

namespace gptrain {
namespace {

// Elements of a block; as many are put together before they go to the backend.
constexpr std::int64_t block_elements = checkpoint_block_bytes / size_of(DType::f32);

/// Checked blocks of the shard files, the last used ones kept: neighbouring windows of one tensor
/// share blocks.
class BlockCache {
public:
    BlockCache(const std::filesystem::path& folder, const Manifest& manifest)
        : folder_(folder), manifest_(manifest) {}

    /// Bytes of block `index`, from its byte `begin` on.
    void read(const TensorRecord& tensor, const ExtentRecord& extent, std::int64_t index,
              std::size_t begin, std::span<std::byte> to) {
        if (std::cmp_equal(to.size(), block_bytes(extent, index))) {
            read_block(file(extent.file), tensor, extent, index, to);
        } else {
            std::memcpy(to.data(), block(tensor, extent, index).data() + begin, to.size());
        }
    }

private:
    static constexpr std::size_t most_entries = 16;

    struct Entry {
        const ExtentRecord* extent = nullptr;
        std::int64_t index = 0;
        std::int64_t last_used = 0;
        std::vector<std::byte> memory;
        std::span<const std::byte> block;
    };

    std::span<const std::byte> block(const TensorRecord& tensor, const ExtentRecord& extent,
                                     std::int64_t index) {
        ++clock_;
        for (Entry& entry : entries_) {
            if (entry.extent == &extent && entry.index == index) {
                entry.last_used = clock_;
                return entry.block;
            }
        }
        Entry& entry = free_entry();
        entry.extent = nullptr;
        const std::int64_t bytes = block_bytes(extent, index);
        if (std::ssize(entry.memory) < bytes) entry.memory.resize(static_cast<std::size_t>(bytes));
        entry.block = read_block(file(extent.file), tensor, extent, index, entry.memory);
        entry.extent = &extent;
        entry.index = index;
        entry.last_used = clock_;
        return entry.block;
    }

    Entry& free_entry() {
        if (entries_.size() < most_entries) return entries_.emplace_back();
        return *std::min_element(
            entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.last_used < b.last_used; });
    }

    const File& file(const std::string& name) {
        const auto open = files_.find(name);
        if (open != files_.end()) return open->second;
        return files_.emplace(name, open_listed(folder_, *manifest_.find_file(name))).first->second;
    }

    std::filesystem::path folder_;
    const Manifest& manifest_;
    std::map<std::string, File> files_;
    std::vector<Entry> entries_;
    std::int64_t clock_ = 0;
};

class StateLoader {
public:
    StateLoader(const std::filesystem::path& folder, const Manifest& manifest, Backend& backend)
        : folder_(folder), manifest_(manifest), backend_(backend), cache_(folder, manifest) {}

    void load(const NamedState& state) {
        const Shard& needed = state.shard;
        const TensorRecord& tensor = find(state);
        const Tensor values = state.values.view({needed.elements()});
        GPTRAIN_CHECK(values.dtype() == DType::f32, state.group, "/", needed.name);
        for (std::int64_t at = 0; at < needed.elements(); at += block_elements) {
            const std::int64_t count = std::min(block_elements, needed.elements() - at);
            Shard window = needed;
            window.flat_begin += at;
            window.flat_end = window.flat_begin + count;
            fill(window, tensor);
            backend_.upload(values.slice(0, at, count),
                            std::as_bytes(std::span(staging_)).first(bytes_of(count)));
        }
    }

private:
    static std::size_t bytes_of(std::int64_t elements) {
        return static_cast<std::size_t>(elements * size_of(DType::f32));
    }

    const TensorRecord& find(const NamedState& state) const {
        const TensorRecord* tensor = manifest_.find(state.group, state.shard.name);
        if (tensor == nullptr) {
            fail(ExitCode::bad_input, folder_.string(), ": holds no tensor ", state.group, "/",
                 state.shard.name);
        }
        if (tensor->shape != state.shard.global) {
            fail(ExitCode::bad_input, folder_.string(), ": tensor ", state.group, "/",
                 state.shard.name, " has the shape ", tensor->shape.to_text(), ", the model's has ",
                 state.shard.global.to_text());
        }
        return *tensor;
    }

    /// Brings the elements of `window` to the front of the staging memory.
    void fill(const Shard& window, const TensorRecord& tensor) {
        staging_.resize(std::max(staging_.size(), static_cast<std::size_t>(window.elements())));
        std::int64_t filled = 0;
        for (const ExtentRecord& extent : tensor.extents) {
            for_each_overlap(window, shard_of(tensor, extent),
                             [&](std::int64_t to, std::int64_t from, std::int64_t count) {
                                 copy(tensor, extent, from, to, count);
                                 filled += count;
                             });
        }
        GPTRAIN_CHECK(filled == window.elements(), tensor.name, ": ", filled, " of ",
                      window.elements(), " elements found");
    }

    void copy(const TensorRecord& tensor, const ExtentRecord& extent, std::int64_t from,
              std::int64_t to, std::int64_t count) {
        while (count > 0) {
            const std::int64_t inside = from % block_elements;
            const std::int64_t part = std::min(count, block_elements - inside);
            const auto target =
                std::as_writable_bytes(std::span(staging_)).subspan(bytes_of(to), bytes_of(part));
            cache_.read(tensor, extent, from / block_elements, bytes_of(inside), target);
            from += part;
            to += part;
            count -= part;
        }
    }

    std::filesystem::path folder_;
    const Manifest& manifest_;
    Backend& backend_;
    BlockCache cache_;
    std::vector<float> staging_;
};

}  // namespace

void load_state(const std::filesystem::path& folder, const Manifest& manifest, Backend& backend,
                const StateSource& needed) {
    StateLoader loader(folder, manifest, backend);
    needed([&](const NamedState& state) {
        if (state.shard.elements() > 0) loader.load(state);
    });
}

}  // namespace gptrain
