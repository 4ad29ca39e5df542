// Communication in a step, by axis of the mesh, as metrics.jsonl reports it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/comm_totals.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// One step on one axis: bytes of the rank that sends the most, and seconds of the rank that spends
/// the longest issuing operations and waiting for them (communication not hidden by computation; on
/// pp also the bubble).
struct CommMetric {
    std::string_view axis;  ///< "tp", "cp", "dp", "pp" or "experts"
    std::int64_t bytes = 0;
    std::optional<double> seconds = {};  ///< nothing if the host cannot measure it
};

/// The metric of an axis; null if there is none.
const CommMetric* find_axis(const std::vector<CommMetric>& comm, std::string_view axis);

/// The axes under which communication is reported: those of the mesh, and that of its ranks that
/// exchange rows of experts.
constexpr std::array<Axis, 5> reported_axes = {Axis::tp, Axis::cp, Axis::dp, Axis::pp,
                                               Axis::experts};

/// The one of them under which a communicator is reported, the one whose size requires it: sums
/// over dp x cp and over copies of experts count as dp, another part of an axis as that axis, first
/// and last stage as pp, and the few bytes over tp x pp as pp, or as tp if there is one stage.
Axis reported_axis(Axis axis, const MeshShape& shape);

/// Sums steps by reported axis.
class CommMetrics {
public:
    /// `timed`: the host waits whenever computation waits.
    CommMetrics(const MeshShape& shape, bool timed) : shape_(shape), timed_(timed) {}

    void add_step(const CommTotals::ByAxis& step);
    /// The mean over the steps since the last call, for the axes with several ranks, in the order
    /// of reported_axes. All ranks call it together, after at least one step.
    std::vector<CommMetric> take(const MpiSession& ranks);

private:
    MeshShape shape_;
    bool timed_;
    CommTotals::ByAxis sums_{};
    std::int64_t steps_ = 0;
};

}  // namespace gptrain
