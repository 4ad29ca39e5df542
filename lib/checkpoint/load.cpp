#include "checkpoint/load.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/checked.h"
#include "base/parallel_for.h"
#include "checkpoint/block.h"
#include "checkpoint/overlap.h"

namespace gptrain {
namespace {

constexpr std::int64_t block_elements = checkpoint_block_bytes / size_of(DType::f32);
// Put together before they go to a backend that does not compute in host memory.
constexpr std::int64_t staged_elements = 16 * block_elements;

std::size_t bytes_of(std::int64_t elements) {
    return static_cast<std::size_t>(elements * size_of(DType::f32));
}

std::span<std::byte> bytes_of(const Tensor& in_host_memory) {
    return {in_host_memory.data(), static_cast<std::size_t>(in_host_memory.bytes())};
}

/// Checked blocks of the shard files, the last used ones kept: where the mesh is another,
/// neighbouring windows of one tensor share blocks.
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
    static constexpr std::size_t most_files = 64;

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
        if (files_.size() == most_files) files_.clear();
        return files_.emplace(name, open_listed(folder_, *manifest_.find_file(name))).first->second;
    }

    std::filesystem::path folder_;
    const Manifest& manifest_;
    std::map<std::string, File> files_;
    std::vector<Entry> entries_;
    std::int64_t clock_ = 0;
};

/// Brings elements from the files to memory, on one thread.
class Reader {
public:
    Reader(const std::filesystem::path& folder, const Manifest& manifest)
        : cache_(folder, manifest) {}

    void fill(const Shard& part, const TensorRecord& tensor, std::span<std::byte> to) {
        std::int64_t filled = 0;
        for (const ExtentRecord& extent : tensor.extents) {
            for_each_overlap(part, shard_of(tensor, extent),
                             [&](std::int64_t at, std::int64_t from, std::int64_t count) {
                                 copy(tensor, extent, from,
                                      to.subspan(bytes_of(at), bytes_of(count)));
                                 filled += count;
                             });
        }
        GPTRAIN_CHECK(filled == part.elements(), tensor.name, ": ", filled, " of ", part.elements(),
                      " elements found");
    }

private:
    /// The extent's elements from `from` on.
    void copy(const TensorRecord& tensor, const ExtentRecord& extent, std::int64_t from,
              std::span<std::byte> to) {
        while (!to.empty()) {
            const std::int64_t inside = from % block_elements;
            const std::size_t part = std::min(to.size(), bytes_of(block_elements - inside));
            cache_.read(tensor, extent, from / block_elements, bytes_of(inside), to.first(part));
            from += block_elements - inside;
            to = to.subspan(part);
        }
    }

    BlockCache cache_;
};

/// A part of a shard, of a block at most, and where it goes.
struct Piece {
    Shard part;
    const TensorRecord* tensor;
    std::span<std::byte> to;
    Tensor values;  ///< the same place in the backend
};

class StateLoader {
public:
    StateLoader(const std::filesystem::path& folder, const Manifest& manifest, Backend& backend)
        : folder_(folder), manifest_(manifest), backend_(backend) {
        for (int i = 0; i < checkpoint_threads; ++i)
            idle_.push_back(std::make_unique<Reader>(folder, manifest));
        if (backend.computes_in_host_memory()) return;
        staging_ = std::make_unique_for_overwrite<std::byte[]>(bytes_of(staged_elements));
    }

    void load(const NamedState& state) {
        const Shard& needed = state.shard;
        const TensorRecord& tensor = find(state);
        const Tensor values = state.values.view({needed.elements()});
        GPTRAIN_CHECK(values.dtype() == DType::f32, state.group, "/", needed.name);
        for (std::int64_t at = 0; at < needed.elements(); at += block_elements) {
            Piece piece{needed, &tensor, {}, {}};
            piece.part.flat_begin += at;
            piece.part.flat_end = std::min(piece.part.flat_begin + block_elements, needed.flat_end);
            piece.values = values.slice(0, at, piece.part.elements());
            add(std::move(piece));
        }
    }

    /// Fills all that was given to `load`.
    void finish() {
        // Neighbours share blocks where the mesh is another: each thread takes several in a row.
        const std::int64_t count = std::ssize(pieces_);
        const std::int64_t row = std::clamp<std::int64_t>(count / checkpoint_threads, 1, 16);
        parallel_for(div_ceil(count, row), checkpoint_threads, [&](std::int64_t i) {
            const auto begin = static_cast<std::size_t>(i * row);
            fill(std::span(pieces_).subspan(begin).first(
                static_cast<std::size_t>(std::min(row, count - i * row))));
        });
        for (const Piece& piece : pieces_) {
            if (staging_) backend_.upload(piece.values, piece.to);
        }
        pieces_.clear();
        staged_ = 0;
    }

private:
    void add(Piece piece) {
        const std::int64_t elements = piece.part.elements();
        if (!staging_) {
            piece.to = bytes_of(piece.values);
        } else {
            if (staged_ + elements > staged_elements) finish();
            piece.to = {staging_.get() + bytes_of(staged_), bytes_of(elements)};
            staged_ += elements;
        }
        pieces_.push_back(std::move(piece));
    }

    void fill(std::span<const Piece> pieces) {
        std::unique_ptr<Reader> reader = take_reader();
        for (const Piece& piece : pieces)
            reader->fill(piece.part, *piece.tensor, piece.to);
        give_back(std::move(reader));
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

    std::unique_ptr<Reader> take_reader() {
        const std::lock_guard lock(mutex_);
        std::unique_ptr<Reader> reader = std::move(idle_.back());
        idle_.pop_back();
        return reader;
    }
    void give_back(std::unique_ptr<Reader> reader) {
        const std::lock_guard lock(mutex_);
        idle_.push_back(std::move(reader));
    }

    std::filesystem::path folder_;
    const Manifest& manifest_;
    Backend& backend_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Reader>> idle_;
    std::vector<Piece> pieces_;
    std::unique_ptr<std::byte[]> staging_;  ///< none where the backend computes in host memory
    std::int64_t staged_ = 0;               ///< elements in use
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
