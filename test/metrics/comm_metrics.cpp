#include "metrics/comm_metrics.h"

#include <chrono>
#include <thread>

#include "catch.h"

namespace gptrain {
namespace {

/// Reports to `totals` an operation that sends this many bytes.
void send(CommTotals& totals, Axis axis, std::int64_t bytes) {
    const CommCall call = {.axis = axis, .operation = "all_reduce", .number = 1, .bytes = bytes};
    totals.on_started(call);
    totals.on_issued(call);
    totals.on_waiting(call);
    totals.on_finished(call);
}

std::vector<CommMetric> metrics_of(const MeshShape& shape, bool timed) {
    CommMetrics metrics(shape, timed);
    for (const std::int64_t step : {1, 2, 3}) {
        CommTotals totals;
        send(totals, Axis::tp, 10 * step);
        send(totals, Axis::kv, 1000 * step);
        send(totals, Axis::cp, 20 * step);
        send(totals, Axis::dp, 30 * step);
        send(totals, Axis::dp_cp, 3000 * step);
        send(totals, Axis::pp, 40 * step);
        send(totals, Axis::embedding_ends, 4000 * step);
        send(totals, Axis::model, 50000 * step);
        send(totals, Axis::experts, 50 * step);
        send(totals, Axis::expert_copies, 300000 * step);
        metrics.add_step(totals.by_axis());
    }
    return metrics.take({});
}

TEST_CASE("every communicator counts as an axis of the mesh, steps by their mean") {
    const auto all = metrics_of({.data = 2, .pipeline = 2, .context = 2, .tensor = 2}, true);
    REQUIRE(all.size() == 4);
    CHECK(all[0].axis == "tp");
    CHECK(all[0].bytes == 2 * 1010);
    CHECK(all[1].axis == "cp");
    CHECK(all[1].bytes == 2 * 20);
    CHECK(all[2].axis == "dp");
    CHECK(all[2].bytes == 2 * 303030);
    CHECK(all[3].axis == "pp");
    CHECK(all[3].bytes == 2 * 54040);
    for (const CommMetric& metric : all) {
        CAPTURE(metric.axis);
        CHECK(metric.seconds > 0);
        CHECK(metric.seconds < 1);
    }
}

TEST_CASE("the exchange of rows of experts counts by itself, sums over their copies as dp") {
    const auto all = metrics_of({.tensor = 4, .expert = 2}, true);
    REQUIRE(all.size() == 3);
    CHECK(all[0].axis == "tp");
    CHECK(all[1].axis == "dp");
    CHECK(all[1].bytes == 2 * 303030);
    CHECK(all[2].axis == "experts");
    CHECK(all[2].bytes == 2 * 50);
    CHECK(metrics_of({.tensor = 2, .expert = 2}, true).size() == 2);
}

TEST_CASE("axes that connect no ranks are left out") {
    CHECK(metrics_of({}, true).empty());
    const auto tp = metrics_of({.tensor = 2}, true);
    REQUIRE(tp.size() == 1);
    CHECK(tp[0].axis == "tp");
    CHECK(tp[0].bytes == 2 * 51010);
    const auto cp = metrics_of({.context = 2}, true);
    REQUIRE(cp.size() == 2);
    CHECK(cp[0].axis == "cp");
    CHECK(cp[1].axis == "dp");
}

TEST_CASE("seconds are those of issuing and waiting, not of the work in between") {
    using std::chrono::milliseconds;
    CommTotals totals;
    const CommCall call = {.axis = Axis::dp, .operation = "all_reduce", .number = 1, .bytes = 8};
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    totals.on_started(call);
    std::this_thread::sleep_for(milliseconds(20));
    totals.on_issued(call);
    const Clock::time_point issued = Clock::now();
    std::this_thread::sleep_for(milliseconds(100));
    const Clock::time_point waiting = Clock::now();
    totals.on_waiting(call);
    std::this_thread::sleep_for(milliseconds(20));
    totals.on_finished(call);
    const std::chrono::duration<double> most = Clock::now() - start - (waiting - issued);
    CHECK(totals[Axis::dp].seconds >= 0.04);
    CHECK(totals[Axis::dp].seconds <= most.count());
}

TEST_CASE("seconds are not told where the host does not wait") {
    const auto dp = metrics_of({.data = 2}, false);
    REQUIRE(dp.size() == 1);
    CHECK(dp[0].bytes == 2 * 303030);
    CHECK_FALSE(dp[0].seconds);
}

}  // namespace
}  // namespace gptrain
