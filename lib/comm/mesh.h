// The ranks as a mesh of four axes: dp, pp, cp, tp; tp varies fastest, then cp, dp, pp.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/step_state.h"
#include "base/checked.h"
#include "base/words.h"
#include "comm/communicator.h"
#include "comm/mpi_session.h"
#include "spec/run_plan.h"

namespace gptrain {

/// The groups of ranks that have a communicator.
enum class Axis {
    tp,
    cp,
    dp,             ///< sends no messages: gradients are summed over `dp_cp`
    pp,             ///< stages: neighbours have channels, everything else goes over `model`
    dp_cp,          ///< ranks with the same parameters: gradients are summed over them
    shard,          ///< neighbours on dp x cp that divide what they share (parallel.shard_ranks)
    shard_copies,   ///< ranks of dp x cp with the same part of it
    model,          ///< tp x pp: ranks that together hold one copy of the parameters
    kv,             ///< tp ranks with the same k/v heads: there are more tp ranks than query groups
    tokens,         ///< tp x cp x dp: sends no messages; experts and expert_copies are parts of it
    experts,        ///< ranks that divide the experts among them and exchange rows of tokens
    expert_copies,  ///< ranks with the same experts: their gradients are summed over them
    embedding_ends,  ///< first and last stage, if they share the embedding
};
constexpr auto words_of(Axis) {
    using enum Axis;
    return std::to_array<Word<Axis>>({{tp, "tp"},
                                      {cp, "cp"},
                                      {dp, "dp"},
                                      {pp, "pp"},
                                      {dp_cp, "dp x cp"},
                                      {shard, "shard group"},
                                      {shard_copies, "copies of shards"},
                                      {model, "tp x pp"},
                                      {kv, "k/v sharers"},
                                      {tokens, "tp x cp x dp"},
                                      {experts, "experts"},
                                      {expert_copies, "copies of experts"},
                                      {embedding_ends, "first and last stage"}});
}
constexpr int axes = count_to(Axis::embedding_ends);

bool contains(const std::vector<Axis>& list, Axis axis);

/// A rank's index on each axis.
struct MeshPlace {
    int dp = 0;
    int pp = 0;
    int cp = 0;
    int tp = 0;
};

/// An axis of the mesh: its size, and the index on it.
struct MeshAxis {
    Axis axis;
    std::int64_t MeshShape::*size;
    int MeshPlace::*index;
};
/// All of them, the one that varies fastest from rank to rank first. Ranks, places and groups
/// follow from this list.
constexpr std::array<MeshAxis, 4> mesh_axes = {{{Axis::tp, &MeshShape::tensor, &MeshPlace::tp},
                                                {Axis::cp, &MeshShape::context, &MeshPlace::cp},
                                                {Axis::dp, &MeshShape::data, &MeshPlace::dp},
                                                {Axis::pp, &MeshShape::pipeline, &MeshPlace::pp}}};

/// A part of an axis. `size` neighbours on the parent axis are a group, or with `across` the ranks
/// that have the same index among their neighbours. The parent is no part itself.
struct SubAxis {
    Axis axis;
    Axis parent;
    std::int64_t MeshShape::*size;
    bool across = false;
};
/// All of them. Communicators, where groups lie on nodes and how they are reported follow from this
/// list.
constexpr std::array<SubAxis, 5> sub_axes = {
    {{Axis::kv, Axis::tp, &MeshShape::kv},
     {Axis::shard, Axis::dp_cp, &MeshShape::shard},
     {Axis::shard_copies, Axis::dp_cp, &MeshShape::shard, true},
     {Axis::experts, Axis::tokens, &MeshShape::expert},
     {Axis::expert_copies, Axis::tokens, &MeshShape::expert, true}}};

/// The entry of an axis in `sub_axes`; null if it has none.
const SubAxis* find_sub_axis(Axis axis);

/// The axes of the mesh on which the ranks of a group differ: dp and cp for dp_cp. A group of a
/// part of an axis, or of embedding_ends, has only some of the ranks there.
std::vector<Axis> spanned_axes(Axis axis);

/// A digit of world ranks: an axis of the mesh, or a factor of one. Ranks that differ by one in it
/// are `stride` apart.
struct RankDigit {
    std::int64_t stride = 1;
    std::int64_t count = 1;
    bool spanned = false;  ///< by each group; else groups differ in it
};
/// The digits of world ranks as the groups of an axis see them, the one that varies fastest first.
/// embedding_ends counts as pp.
std::vector<RankDigit> digits_of(Axis axis, const MeshShape& shape);
std::vector<RankDigit> digits_of(const SubAxis& part, const MeshShape& shape);

/// The ranks of each group of an axis.
std::int64_t group_size(Axis axis, const MeshShape& shape);

/// "dp 0 pp 1 cp 0 tp 3".
std::string to_text(const MeshPlace& place);

/// The place of a world rank: rank = ((pp D + dp) C + cp) T + tp.
MeshPlace place_of(std::int64_t rank, const MeshShape& shape);

/// The world rank at a place.
std::int64_t rank_of(const MeshPlace& place, const MeshShape& shape);

/// A one-way connection between two stages; messages arrive in the order sent.
struct Channel {
    int from = 0;  ///< stage
    int to = 0;
    bool operator==(const Channel&) const = default;
};

/// The axes whose messages are copies between the GPUs of a node; NCCL serves the others.
using PeerAxes = std::vector<Axis>;

/// The connections that a model and its schedule need besides the axes.
struct MeshConnections {
    bool split_tied_embedding = false;  ///< first and last stage share the embedding
    std::vector<Channel> channels;
    std::array<Traffic, axes> traffic;  ///< by axis
    int head_stage = 0;                 ///< the stage with the head
};

/// The ranks that one communicator connects.
struct RankGroup {
    Axis axis = Axis::tp;  ///< what it is for; channels count as pp
    std::int64_t id = 0;   ///< world rank of its first member; unique among groups made together
    int rank = 0;          ///< this rank's rank in the group
    int size = 1;
    Traffic traffic = {};
};

/// The group of a world rank that spans these digits, and the one that it belongs to on an axis.
RankGroup group_in(Axis axis, const std::vector<RankDigit>& digits, std::int64_t rank);
RankGroup group_on(Axis axis, std::int64_t rank, const MeshShape& shape);

/// An earlier axis with the same group on every rank and the same traffic; one communicator then
/// serves both (tp x pp and tp, if there is one stage). Always null for dp x cp: its sums of
/// gradients must not hold up the messages of cp.
std::optional<Axis> twin_of(Axis axis, const MeshShape& shape, const MeshConnections& connections);

/// Makes the communicator of a group. All ranks of the world call it together, each for its own
/// group.
using CommunicatorFactory = std::function<std::unique_ptr<Communicator>(const RankGroup& group)>;

/// All communicators of a rank, created up front. Axes on which all ranks have the same groups
/// share one (twin_of); on an axis without traffic each rank is alone.
class Mesh {
public:
    Mesh(const MeshShape& shape, const MeshPlace& place, const MeshConnections& connections,
         const CommunicatorFactory& make);

    const MeshShape& shape() const { return shape_; }
    const MeshPlace& place() const { return place_; }
    Communicator& operator[](Axis axis) const { return *of_axis_[static_cast<std::size_t>(axis)]; }
    Communicator& tp() const { return (*this)[Axis::tp]; }
    Communicator& cp() const { return (*this)[Axis::cp]; }
    Communicator& dp_cp() const { return (*this)[Axis::dp_cp]; }
    Communicator& model() const { return (*this)[Axis::model]; }
    Communicator& kv() const { return (*this)[Axis::kv]; }
    Communicator& experts() const { return (*this)[Axis::experts]; }
    Communicator& embedding_ends() const { return (*this)[Axis::embedding_ends]; }
    /// The stage with the head, and the rank in tp x pp of its first rank.
    int head_stage() const { return head_stage_; }
    int head_rank() const { return narrow<int>(head_stage_ * shape_.tensor); }
    /// A channel from or to this rank's stage. The sender has rank 0, the receiver rank 1.
    Communicator& channel(const Channel& channel) const;
    /// Uses every communicator once, so that faults show at the start.
    void warm_up() const;
    /// Host memory allocated by all communicators.
    std::int64_t held_bytes() const;
    /// Aborts all messages, including those that wait for lost ranks, if the backend releases
    /// memory only after messages have ended (NCCL); messages over MPI need not end. All later
    /// messages are Errors. `why` is the fault: aborting may be slow, so it is reported first.
    void abort(std::string_view why) const {
        if (abort_) abort_(why);
    }
    void set_abort(std::function<void(std::string_view why)> abort) { abort_ = std::move(abort); }
    /// Empty unless the spec lets messages be copies (parallel.peer).
    const std::optional<PeerAxes>& peer_axes() const { return peer_axes_; }
    void set_peer_axes(std::optional<PeerAxes> peer) { peer_axes_ = std::move(peer); }

private:
    struct Connection {
        Channel channel;
        std::unique_ptr<Communicator> communicator;
    };
    void connect(const std::vector<Channel>& channels, const CommunicatorFactory& make);

    MeshShape shape_;
    MeshPlace place_;
    int head_stage_;
    std::vector<std::unique_ptr<Communicator>> communicators_;
    std::array<Communicator*, axes> of_axis_ = {};
    std::vector<Connection> connections_;
    std::function<void(std::string_view why)> abort_;
    std::optional<PeerAxes> peer_axes_;
};

/// Returns work(). If it throws an Error of this rank alone, aborts the mesh first: device memory
/// that outlives `work` is released only when the device is done, and its messages may wait for
/// ranks for ever.
auto or_abort(const Mesh& mesh, const auto& work) {
    try {
        return work();
    } catch (const CommonError&) {
        throw;
    } catch (const std::exception& error) {
        mesh.abort(error.what());
        throw;
    }
}

/// The mesh of a single-rank run.
Mesh one_rank_mesh();

/// On all ranks, in place: the loss becomes the sum over dp x cp of the head's, and the measures
/// become the sums over dp x cp and all ranks of a model: with stages, each rank of tp counts.
void share_sums(const Mesh& mesh, const StepRef& step);

/// How often a measure's sum and weight then have what one rank of tp adds.
inline std::int64_t copies_in_measures(const MeshShape& mesh) {
    return mesh.pipeline > 1 ? mesh.tensor : 1;
}

}  // namespace gptrain
