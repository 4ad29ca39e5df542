// What ranks say to each other in a step, by axis of the mesh, as metrics.jsonl tells it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/comm_totals.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// A step on one axis: bytes of the rank that sends most, seconds of the rank that is kept from
/// computing longest by issuing operations and waiting for them (communication that computation
/// does not hide; on pp also the bubble).
struct CommMetric {
    std::string_view axis;  ///< "tp", "cp", "dp" or "pp"
    std::int64_t bytes = 0;
    std::optional<double> seconds = {};  ///< none where the host does not know
};

/// The axis of the mesh that a communicator counts as, that whose size makes it: sums over dp x cp
/// count as dp, the sharers of k and v as tp, first and last stage as pp, and the few bytes over
/// tp x pp as pp, or as tp where there is one stage.
Axis counts_as(Axis axis, const MeshShape& shape);

/// Adds up steps, by axes of the mesh.
class CommMetrics {
public:
    /// `timed`: whether the host waits where computing waits.
    CommMetrics(const MeshShape& shape, bool timed) : shape_(shape), timed_(timed) {}

    void add_step(const CommTotals& step);
    /// The mean of the steps since the last time, of the axes that connect ranks in the order tp,
    /// cp, dp, pp. All ranks call it together, after at least one step.
    std::vector<CommMetric> take(const MpiSession& ranks);

private:
    MeshShape shape_;
    bool timed_;
    CommTotals::ByAxis sums_{};
    std::int64_t steps_ = 0;
};

}  // namespace gptrain
