// All memory of a run: one arena for each use, allocated once before the first step.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/buffer.h"
#include "base/words.h"

namespace gptrain {

/// Uses of memory, the rows of the memory table.
enum class MemoryUse {
    weights,           ///< parameters in the compute dtype
    main_params,       ///< the optimizer's fp32 parameters, unless the compute dtype is fp32
    main_grads,        ///< fp32 gradients
    grad_messages,     ///< 16-bit gradients in flight between ranks
    optimizer,         ///< exp_avg and exp_avg_sq, momentum_buffer
    saved,             ///< activations kept from forward to backward
    boundaries,        ///< activations and gradients between pipeline stages
    workspace,         ///< activations and gradients that live within one action
    batch,             ///< token ids, targets, weights; the step state
    scratch,           ///< memory inside ops, and landing place of uploads
    staging,           ///< host memory for uploads to the device
    gathered_weights,  ///< weights of other ranks, while they are in use
    gathered_grads,    ///< whole gradients, until they are summed into the owned parts
    host_optimizer,    ///< the optimizer's moments in host memory
    host_main_params,  ///< its main parameters in host memory
    host_saved,        ///< saved activations in host memory
    readback,          ///< host copies of the step state
    messages,          ///< host memory of reductions, allocated by communicators on demand
    memory_copies,     ///< files of checkpoint.memory, made on demand
    snapshot,          ///< host copy of the state, from which a checkpoint is written
};
constexpr auto words_of(MemoryUse) {
    using enum MemoryUse;
    return std::to_array<Word<MemoryUse>>({{weights, "weights"},
                                           {main_params, "main parameters"},
                                           {main_grads, "main gradients"},
                                           {grad_messages, "gradient messages"},
                                           {optimizer, "optimizer"},
                                           {saved, "saved activations"},
                                           {boundaries, "stage boundaries"},
                                           {workspace, "workspace"},
                                           {batch, "batch and step state"},
                                           {scratch, "op scratch"},
                                           {staging, "host staging"},
                                           {gathered_weights, "gathered weights"},
                                           {gathered_grads, "gathered gradients"},
                                           {host_optimizer, "host optimizer"},
                                           {host_main_params, "host main parameters"},
                                           {host_saved, "host saved activations"},
                                           {readback, "host step state"},
                                           {messages, "host messages"},
                                           {memory_copies, "copies in memory"},
                                           {snapshot, "checkpoint snapshot"}});
}
constexpr int memory_uses = count_to(MemoryUse::snapshot);
constexpr MemorySpace space_of(MemoryUse use) {
    using enum MemoryUse;
    const bool host = use == staging || use == host_optimizer || use == host_main_params ||
                      use == host_saved || use == readback || use == messages ||
                      use == memory_copies || use == snapshot;
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

/// The nonzero uses and the totals, in one line.
std::string to_text(const MemoryPlan& plan);

/// The arenas of a run, one for each use except messages and copies in memory. With the run's plan
/// they have exactly its sizes. Without a plan (on the meter, which holds no data) they are
/// unbounded, those of copies, too, and `peaks()` then is the plan.
class Memory {
public:
    /// If memory is short, the Error (usage) includes the plan.
    explicit Memory(Backend& backend, const std::optional<MemoryPlan>& plan = std::nullopt);
    Arena& operator[](MemoryUse use) { return arenas_[static_cast<std::size_t>(use)]; }
    /// Peak use of each arena so far.
    MemoryPlan peaks() const;

private:
    std::vector<Arena> arenas_;
};

}  // namespace gptrain
