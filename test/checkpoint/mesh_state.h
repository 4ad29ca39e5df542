// Small training states on made-up meshes, and folders for their checkpoints.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/philox.h"
#include "checkpoint/state_source.h"

namespace gptrain::test {

/// A mesh of tp x dp ranks; tp varies fastest. Weights are boxes of the tp ranks, owned by dp rank
/// 0. exp_avg and exp_avg_sq are flat ranges, one per dp rank, and with `divided` so are weights.
struct TestMesh {
    int tp = 1;
    int dp = 1;
    bool divided = false;
    int ranks() const { return tp * dp; }
};

struct TestTensor {
    std::string name;
    Shape shape;
    int split_dim;  ///< over tp; -1: replicated, owned by tp rank 0
};

inline const std::vector<TestTensor>& small_tensors() {
    static const std::vector<TestTensor> tensors = {
        {"wte.weight", {101, 24}, 0},       {"h.0.ln_1.weight", {24}, -1},
        {"h.0.attn.q.weight", {24, 24}, 0}, {"h.0.attn.proj.weight", {24, 24}, 1},
        {"h.0.odd", {3, 5, 7}, 1},          {"h.0.bias", {1}, -1}};
    return tensors;
}

/// The bits of an element: any pattern, including NaNs and denormals. `tensor` is a hash.
inline float element(std::uint64_t tensor, std::int64_t index, std::int64_t step) {
    std::uint64_t x = tensor + static_cast<std::uint64_t>(index) * 0x9E3779B97F4A7C15u +
                      static_cast<std::uint64_t>(step) * 0xD1B54A32D192ED03u;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    return std::bit_cast<float>(static_cast<std::uint32_t>(x >> 32));
}

/// One rank's part.
class RankState {
public:
    RankState(const TestMesh& mesh, int rank,
              const std::vector<TestTensor>& tensors = small_tensors()) {
        for (const std::string group : {"weight", "exp_avg", "exp_avg_sq"}) {
            for (const TestTensor& tensor : tensors)
                add(mesh, rank, group, tensor);
        }
    }

    void fill(std::int64_t step) {
        each([&](Item& item, std::int64_t i, std::int64_t global) {
            item.values[static_cast<std::size_t>(i)] = element(item.hash, global, step);
        });
    }
    void clear() {
        each([](Item& item, std::int64_t i, std::int64_t) {
            item.values[static_cast<std::size_t>(i)] = 0;
        });
    }
    bool holds(std::int64_t step) {
        bool equal = true;
        each([&](Item& item, std::int64_t i, std::int64_t global) {
            const float wanted = element(item.hash, global, step);
            equal =
                equal && std::bit_cast<std::uint32_t>(item.values[static_cast<std::size_t>(i)]) ==
                             std::bit_cast<std::uint32_t>(wanted);
        });
        return equal;
    }

    StateSource source() {
        return [this](const StateVisitor& visit) {
            for (Item& item : items_) {
                const Tensor values(reinterpret_cast<std::byte*>(item.values.data()), DType::f32,
                                    {item.shard.elements()});
                visit({item.group, item.shard, values});
            }
        };
    }

private:
    struct Item {
        std::string group;
        Shard shard;
        std::vector<float> values;
        std::uint64_t hash = name_hash(group + "/" + shard.name);
    };

    void add(const TestMesh& mesh, int rank, const std::string& group, const TestTensor& tensor) {
        const int tp = rank % mesh.tp;
        const int dp = rank / mesh.tp;
        Shard shard = Shard::whole(tensor.name, tensor.shape);
        if (tensor.split_dim >= 0) {
            const std::int64_t size = tensor.shape[tensor.split_dim];
            const std::int64_t begin = size * tp / mesh.tp;
            shard.box.offset[tensor.split_dim] = begin;
            shard.box.extent[tensor.split_dim] = size * (tp + 1) / mesh.tp - begin;
        }
        const std::int64_t count = shard.box.extent.elements();
        const bool whole_box = group == "weight" && !mesh.divided;
        shard.flat_begin = whole_box ? 0 : count * dp / mesh.dp;
        shard.flat_end = whole_box ? count : count * (dp + 1) / mesh.dp;
        shard.owned = (!whole_box || dp == 0) && (tensor.split_dim >= 0 || tp == 0);
        items_.push_back(
            {group, shard, std::vector<float>(static_cast<std::size_t>(shard.elements()))});
    }

    void each(const auto& visit) {
        for (Item& item : items_) {
            for (std::int64_t i = 0; i < item.shard.elements(); ++i) {
                visit(item, i, item.shard.global_index(item.shard.flat_begin + i));
            }
        }
    }

    std::vector<Item> items_;
};

/// An empty folder that is removed with its contents.
class ScratchFolder {
public:
    explicit ScratchFolder(const std::string& name)
        : path_(std::filesystem::absolute("scratch-" + name)) {
        std::filesystem::remove_all(path_);
        std::filesystem::create_directories(path_);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    ~ScratchFolder() { std::filesystem::remove_all(path_); }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

}  // namespace gptrain::test
