// The prices of a step's ops and messages by a hardware profile.
#pragma once

#include <vector>

#include "base/words.h"
#include "comm/mesh.h"
#include "engine/step_trace.h"
#include "hardware/profile.h"

namespace gptrain {

/// The categories of a step's time; their words are printed.
enum class Spent {
    gemms,
    attention,
    other,
    optimizer,
    tp,
    cp,
    dp,
    pp,
    experts,
    offload,
    bubble,
    host
};
constexpr auto words_of(Spent) {
    using enum Spent;
    return std::to_array<Word<Spent>>({{gemms, "GEMMs"},
                                       {attention, "attention"},
                                       {other, "other"},
                                       {optimizer, "optimizer"},
                                       {tp, "tp"},
                                       {cp, "cp"},
                                       {dp, "dp"},
                                       {pp, "pp"},
                                       {experts, "experts"},
                                       {offload, "offload"},
                                       {bubble, "bubble"},
                                       {host, "host"}});
}
constexpr int spent_kinds = count_to(Spent::host);

/// One rank of each stage; the other ranks of a stage do the same at the same time.
struct PipelineTraces {
    MeshShape mesh;
    std::int64_t chunks = 1;     ///< of a stage
    bool only_rings = false;     ///< deterministic sums (hardware/message_time.h)
    bool peer_messages = false;  ///< RunPlan.peer_messages
    bool free_boundary = false;  ///< messages between stages take no time
    std::vector<StepTrace> stages;
    /// The host reads the result of a step before it issues the next one.
    bool host_reads = false;
};

struct PricedOp {
    double seconds = 0;
    Spent spent = Spent::other;
};

struct PricedMessage {
    double seconds = 0;  ///< in which data moves
    Spent spent = Spent::tp;
    std::int64_t stages = 1;  ///< that must have started before data moves
    double slowdown = 0;      ///< the share of computing speed that it takes meanwhile
    std::int64_t blocks = 0;  ///< multiprocessors that it holds from its issue to its end
    /// Calls by which the host issues it as copies, each of which takes as long as issuing an op;
    /// 0: it is a message of NCCL or MPI.
    std::int64_t copy_calls = 0;
    bool between_stages = false;
    bool sends = false;      ///< to another stage
    bool host_link = false;  ///< copies beside computation, which no message holds up
};

/// The prices of a trace's ops and messages, by their indices.
struct StepPrices {
    std::vector<PricedOp> ops;
    std::vector<PricedMessage> messages;
};

/// The most of `ranks` ranks on a node: one for each device. The cores of a CPU that has no other
/// nodes serve any number.
std::int64_t ranks_per_node(const HardwareProfile& hardware, std::int64_t ranks);

/// The devices of its node for one of `ranks` ranks: 1, or on a CPU its share of the cores.
double share_of_node(const HardwareProfile& hardware, std::int64_t ranks);

/// The devices that work: on a CPU at most one for each thread of the rank.
double devices_per_rank(const HardwareProfile& hardware, std::int64_t ranks);

/// The slowdown of a stage's work while all other stages idle: above 1 if the stage alone has more
/// ranks on a node than cores.
double least_crowding(const HardwareProfile& hardware, const MeshShape& mesh);

/// The prices of a stage's trace. On a CPU a rank has its share of the node's cores, at least one:
/// the simulation of the step knows when ranks compete for a core.
StepPrices price_stage(const PipelineTraces& pipeline, std::int64_t stage,
                       const HardwareProfile& hardware);

}  // namespace gptrain
