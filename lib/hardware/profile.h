// The capabilities of a machine, read from a YAML file (configs/hardware): the numbers from which
// the time of a step follows (planner/step_time.h). All rates are per second, all times in seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "spec/run_spec.h"

namespace gptrain {

/// One number for each precision; 0 where the device lacks it.
struct PrecisionRates {
    double fp32 = 0;
    double bf16 = 0;
    double fp16 = 0;
    double fp8 = 0;

    double of(DType dtype) const;
};

/// A share of such a number for each precision: at most 1.
struct PrecisionShares : PrecisionRates {};

/// A block of a GEMM's output that one multiprocessor computes at a time.
struct GemmTile {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    double speed = 1;  ///< relative to the fastest tile
};

/// Rates of fused attention on long sequences, in FLOP/s of the pairs that the mask leaves.
struct AttentionRate {
    std::int64_t head_dim = 0;
    double forward = 0;
    double backward = 0;
};

/// The bandwidth that one kind of op reaches, where it differs from the device's.
struct OpBandwidth {
    std::string op;  ///< as in backend/ops.h: "rope"
    double bandwidth = 0;
};

/// The measured time of an op (OpWork in op_time.h) on a rank with `threads` threads, while all
/// cores of the node were busy.
struct MeasuredOp {
    std::string op;
    Precision precision = Precision::fp32;
    std::int64_t threads = 1;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t length = 0;
    std::int64_t head_dim = 0;
    double flops = 0;
    double bytes = 0;
    double seconds = 0;
    double spread = 0;  ///< of the repeats, relative to `seconds`
};

struct DeviceProfile {
    double memory = 0;             ///< bytes
    double memory_bandwidth = 0;   ///< peak
    double memory_efficiency = 1;  ///< the share of the peak that memory-bound ops reach
    PrecisionRates peak_flops;
    PrecisionShares gemm_efficiency = {{1, 1, 1, 1}};  ///< share of the peak that large GEMMs reach
    std::int64_t multiprocessors = 1;
    std::vector<GemmTile> gemm_tiles;  ///< empty: no quantisation
    double gemm_fill = 0;              ///< fill and drain of a tile's pipeline, as bytes along k
    /// True if a GEMM can end with GELU, or with its gradient; otherwise a separate kernel follows.
    /// On every GPU one follows for GELU, which is computed from the rounded result.
    bool fuses_gelu = false;
    bool fuses_gelu_gradient = true;
    std::vector<AttentionRate> attention;
    double attention_half_length = 0;  ///< sequence length at which attention has half its rate
    std::vector<OpBandwidth> op_bandwidths;
    /// Standard deviation of the speed of GEMMs and attention between devices, relative to the
    /// mean. Power and silicon (on a CPU: other processes) make some slower, and all wait for the
    /// slowest.
    double spread = 0;
    /// The same from one op to the next on each device, without differences that last. Ranks that
    /// share a model wait for the slowest after every few ops, and then this does not average out.
    double op_spread = 0;
    double op_seconds = 0;             ///< from the end of an op to the start of the next one
    double issue_seconds = 0;          ///< time of the host to issue an op
    double message_issue_seconds = 0;  ///< to issue a message; 0: as an op
    /// How many times as long a GEMM takes while a message is in flight; 0: as its tiles take on
    /// the multiprocessors that the message leaves.
    double gemm_crowding = 0;
    double copy_bandwidth = 0;  ///< between host and device; 0: the host's memory is the device's
    std::vector<MeasuredOp> measured = {};  ///< where it has an op, it replaces the rates above
};

/// The measured time of one message of `bytes` bytes. A collective among p ranks has p - 1 of them,
/// an all-reduce 2 (p - 1).
struct MeasuredMessage {
    std::string operation;
    double bytes = 0;
    double seconds = 0;
    double spread = 0;  ///< of the repeats, relative to `seconds`
};

/// How messages travel: latency of a step, bytes per second and direction of one device.
struct LinkProfile {
    double bandwidth = 0;
    double latency = 0;
    /// Time of an all-reduce in which switches add, relative to that of a ring with the same
    /// bandwidth; 1 where they do not.
    double reduction = 1;
    double block_bandwidth = 0;  ///< that one thread block of NCCL carries; 0: no bound
    std::vector<MeasuredMessage> measured = {};  ///< replaces the above for its operations
};

struct NodeProfile {
    std::int64_t devices = 1;
    LinkProfile link;                    ///< between its devices
    std::optional<LinkProfile> network;  ///< to other nodes, per network card; none: one node
    std::int64_t cards = 1;              ///< network cards
    double host_memory = 0;              ///< bytes; 0: unknown
    double disk_bandwidth = 0;           ///< bytes/s to the shared file system; 0: unknown
};

/// The behaviour of the software, by default of this program.
struct SoftwareProfile {
    bool overlap_grads = true;     ///< gradients are reduced during backward
    bool overlap_params = true;    ///< updated weights are gathered during the next forward
    bool overlap_tensor = true;    ///< computation overlaps with messages of tp where it can
    bool overlap_boundary = true;  ///< computation overlaps with messages to other stages
    bool in_order = true;          ///< a message starts after all that were issued before it
    /// Ranks of tp each send a part of the boundary to the next stage, without sequence
    /// parallelism.
    bool scatter_boundary = true;
    /// The share of computing speed that a message takes while its data move. A message that uses
    /// less bandwidth than the node's links takes less of it. 0: as the messages of this program,
    /// whose thread blocks hold multiprocessors from their issue on (comm/message_blocks.h).
    double slowdown = 0;
    double speed = 1;  ///< of its GEMMs and attention, relative to the device's rates
};

struct HardwareProfile {
    std::string name;
    DeviceChoice kind = DeviceChoice::cuda;  ///< cuda or cpu
    DeviceProfile device;
    NodeProfile node;
    SoftwareProfile software;
    /// Measured over predicted time of training steps. load_profile has already applied it to the
    /// numbers above.
    double correction = 1;
    /// Some of the numbers were measured, or the correction was: neither is true of rates from data
    /// sheets.
    bool calibrated = false;
    /// The keys that the file leaves out and the cautious values that they got: "device.op_seconds
    /// 4e-06".
    std::vector<std::string> assumed;
    std::int64_t threads = 0;   ///< of a rank on a CPU; 0: one for each core of its share
    double watts = 0;           ///< of a device with its share of the node; 0: unknown
    double price_per_hour = 0;  ///< of a device, in any currency; 0: unknown
};

/// The profile in which everything takes `factor` times as long; peaks stay.
HardwareProfile slowed_down(HardwareProfile profile, double factor);

}  // namespace gptrain
