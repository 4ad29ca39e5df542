// All memory of a run: one arena for each use, made once, before the first step.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/buffer.h"

namespace gptrain {

/// What memory is for; the rows of the memory table.
enum class MemoryUse {
    weights,        ///< parameters in the compute dtype
    main_params,    ///< fp32 parameters of the optimizer, where the compute dtype is another
    main_grads,     ///< fp32 gradients
    grad_messages,  ///< gradients in 16 bits on their way between ranks
    optimizer,      ///< exp_avg and exp_avg_sq
    saved,          ///< activations kept from forward to backward
    boundaries,     ///< activations and gradients between the stages of a pipeline
    workspace,      ///< activations and gradients that live inside an action
    batch,          ///< token ids, targets, weights; the step state
    scratch,        ///< inside of ops, and where uploads land
    staging,        ///< host memory on the way to the device
    readback,       ///< host copies of the step state
    messages,       ///< host memory of reductions, taken by communicators when they need it
    snapshot,       ///< host copy of the state that a checkpoint is written from
};
constexpr int memory_uses = 14;
std::string_view name_of(MemoryUse use);
constexpr MemorySpace space_of(MemoryUse use) {
    const bool host = use == MemoryUse::staging || use == MemoryUse::readback ||
                      use == MemoryUse::messages || use == MemoryUse::snapshot;
    return host ? MemorySpace::host : MemorySpace::device;
}

/// Bytes for each use.
class MemoryPlan {
public:
    std::int64_t& operator[](MemoryUse use) { return bytes_[static_cast<int>(use)]; }
    std::int64_t operator[](MemoryUse use) const { return bytes_[static_cast<int>(use)]; }
    std::int64_t total() const;
    std::int64_t on_device() const;
    bool operator==(const MemoryPlan&) const = default;

private:
    std::array<std::int64_t, memory_uses> bytes_{};
};

/// What is not 0 of it, and the sums, in one line.
std::string to_words(const MemoryPlan& plan);

/// The arenas of a run: one for each use but messages. Made with the plan of the same run they have
/// exactly its sizes; made without one (on the meter, which holds no data) they are unbounded and
/// `peaks()` afterwards is the plan.
class Memory {
public:
    /// An Error for a lack of memory tells the plan.
    explicit Memory(Backend& backend, const std::optional<MemoryPlan>& plan = std::nullopt);
    Arena& operator[](MemoryUse use) { return arenas_[static_cast<std::size_t>(use)]; }
    /// The most in use so far of each arena.
    MemoryPlan peaks() const;

private:
    std::vector<Arena> arenas_;
};

}  // namespace gptrain
