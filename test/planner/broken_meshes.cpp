// The check of whole meshes finds ranks that do not fit together.
#include <array>
#include <functional>

#include "backend/buffer.h"
#include "base/error.h"
#include "catch.h"
#include "planner/whole_mesh.h"

using namespace gptrain;
using namespace gptrain::test;

namespace {

/// A rank's work with two communicators, both of the same two ranks.
using Work = std::function<void(Communicator& tp, Communicator& dp)>;

/// Its address is never dereferenced.
Tensor numbers(std::int64_t count) {
    return Tensor(reinterpret_cast<std::byte*>(Arena::alignment), DType::f32, {count});
}

std::string fault_of(const std::array<Work, 2>& work, StartRule rule = StartRule::mpi) {
    std::array<CommList, 2> lists;
    std::vector<MeshRank> ranks;
    for (std::size_t i = 0; i < 2; ++i) {
        const int rank = static_cast<int>(i);
        std::vector<RankGroup> groups;
        const CommunicatorFactory make = recording(lists[i], groups);
        const auto tp = make({Axis::tp, 0, rank, 2});
        const auto dp = make({Axis::dp, 0, rank, 2});
        work[i](*tp, *dp);
        ranks.push_back({&lists[i], groups});
    }
    try {
        check_whole_mesh(ranks, rule);
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bug);
        return error.what();
    }
    return "none";
}

void sum(Communicator& communicator, std::int64_t count = 8) {
    communicator.all_reduce(numbers(count), Reduce::sum).wait();
}

}  // namespace

TEST_CASE("ranks that do the same have no fault", "[planner]") {
    const Work both = [](Communicator& tp, Communicator& dp) {
        sum(tp);
        dp.all_gather(numbers(8), numbers(4), 0).wait();
    };
    CHECK(fault_of({both, both}) == "none");
}

TEST_CASE("a send and its receive have no fault", "[planner]") {
    const Work sender = [](Communicator& tp, Communicator&) {
        tp.send(numbers(8), 1 - tp.rank()).wait();
    };
    const Work receiver = [](Communicator& tp, Communicator&) { tp.recv(numbers(8), 0).wait(); };
    CHECK(fault_of({sender, receiver}) == "none");
    CHECK(fault_of({sender, sender}) ==
          "operation 0 on tp: rank 0 does send of 8 fp32 (0), rank 1 does send of 8 fp32 (0)");
    const Work larger = [](Communicator& tp, Communicator&) { tp.recv(numbers(9), 0).wait(); };
    CHECK(fault_of({sender, larger}) ==
          "operation 0 on tp: rank 0 does send of 8 fp32 (0), rank 1 does recv of 9 fp32 (0)");
}

TEST_CASE("operations that differ are found", "[planner]") {
    const Work both = [](Communicator& tp, Communicator&) { sum(tp), sum(tp); };
    const Work once = [](Communicator& tp, Communicator&) { sum(tp); };
    const Work more = [](Communicator& tp, Communicator&) { sum(tp), sum(tp, 9); };
    CHECK(fault_of({both, once}) ==
          "operation 1 on tp: rank 0 does all_reduce of 8 fp32 (0), rank 1 does nothing");
    CHECK(fault_of({both, more}) ==
          "operation 1 on tp: rank 0 does all_reduce of 8 fp32 (0), "
          "rank 1 does all_reduce of 9 fp32 (0)");
}

TEST_CASE("ranks that wait for each other are found", "[planner]") {
    const Work tp_first = [](Communicator& tp, Communicator& dp) { sum(tp), sum(dp); };
    const Work dp_first = [](Communicator& tp, Communicator& dp) { sum(dp), sum(tp); };
    CHECK(fault_of({tp_first, dp_first}) ==
          "the mesh deadlocks: rank 0 waits for operation 0 on tp, all_reduce of 8 fp32 (0), and "
          "so for rank 1; rank 1 waits for operation 0 on dp, all_reduce of 8 fp32 (0), and so for "
          "rank 0; rank 0 is one of them");
    // Allowed in either order if both are issued before one is waited for.
    const Work both_then_wait = [](Communicator& tp, Communicator& dp) {
        Pending first = dp.all_reduce(numbers(8), Reduce::sum);
        Pending second = tp.all_reduce(numbers(8), Reduce::sum);
        first.wait();
        second.wait();
    };
    CHECK(fault_of({tp_first, both_then_wait}) == "none");
}

TEST_CASE("ranks that wait for each other's starts are found", "[planner]") {
    // The second sum over dp starts when the first is over, and the sum over tp after it.
    const Work two_first = [](Communicator& tp, Communicator& dp) {
        Pending first = dp.all_reduce(numbers(8), Reduce::sum);
        Pending second = dp.all_reduce(numbers(8), Reduce::sum);
        Pending third = tp.all_reduce(numbers(8), Reduce::sum);
        first.wait();
        second.wait();
        third.wait();
    };
    const Work tp_first = [](Communicator& tp, Communicator& dp) { sum(tp), sum(dp), sum(dp); };
    CHECK(fault_of({two_first, tp_first}) == "none");
    CHECK(fault_of({two_first, two_first}, StartRule::nccl) == "none");
    CHECK(fault_of({two_first, tp_first}, StartRule::nccl) ==
          "the mesh deadlocks: rank 0 waits for operation 0 on dp, all_reduce of 8 fp32 (0), and "
          "so for rank 1; rank 1 waits for operation 0 on tp, all_reduce of 8 fp32 (0), and so for "
          "rank 0; rank 0 is one of them");
}

TEST_CASE("a communicator without one of its ranks is found", "[planner]") {
    CommList list;
    const std::vector<MeshRank> alone = {{&list, {{Axis::tp, 0, 0, 2}}}};
    CHECK_THROWS_AS(check_whole_mesh(alone), Error);
    const std::vector<MeshRank> twice = {{&list, {{Axis::tp, 0, 0, 2}}},
                                         {&list, {{Axis::tp, 0, 0, 2}}}};
    CHECK_THROWS_AS(check_whole_mesh(twice), Error);
}
