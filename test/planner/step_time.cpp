// The time of a step on devices with streams.
#include "planner/step_time.h"

#include "base/error.h"
#include "catch.h"
#include "traced_steps.h"

namespace gptrain::test {

TEST_CASE("ops follow each other") {
    const StepTime time = time_of(Script().op(gemm(3)).op(traffic(2)).trace());
    CHECK(time.seconds == Approx(5));
    CHECK(time[Spent::gemms] == Approx(3));
    CHECK(time[Spent::other] == Approx(2));
}

TEST_CASE("a device waits for a host that issues too slowly") {
    HardwareProfile hardware = unit_hardware();
    hardware.device.issue_seconds = 4;
    const StepTime time = time_of(Script().op(gemm(3)).op(gemm(1)).trace(), {}, hardware);
    CHECK(time.seconds == Approx(8));
    CHECK(time[Spent::host] == Approx(4));
}

TEST_CASE("a message hides behind ops, and the rest of it is exposed") {
    const auto step = [](std::int64_t bytes) {
        return Script().op(gemm(1)).message(Axis::dp, bytes).op(gemm(5)).wait(Axis::dp).trace();
    };
    CHECK(time_of(step(4), data_and_tensor).seconds == Approx(6));
    const StepTime longer = time_of(step(8), data_and_tensor);
    CHECK(longer.seconds == Approx(9));
    CHECK(longer[Spent::dp] == Approx(3));
}

TEST_CASE("messages of one communicator follow each other") {
    const StepTime time = time_of(Script()
                                      .message(Axis::dp, 4)
                                      .message(Axis::dp, 4)
                                      .op(gemm(1))
                                      .wait(Axis::dp, 1)
                                      .wait(Axis::dp)
                                      .trace(),
                                  data_and_tensor);
    CHECK(time.seconds == Approx(8));
    CHECK(time[Spent::dp] == Approx(7));
}

TEST_CASE("copies to and from the host take their own time beside ops and messages") {
    HardwareProfile hardware = unit_hardware();
    hardware.device.copy_bandwidth = 2;
    hardware.software.in_order = true;
    const auto copies = [&](std::int64_t bytes) {
        return Script()
            .copies(0, bytes)
            .copies(1, bytes)
            .message(Axis::dp, 3)
            .op(gemm(4))
            .wait(Axis::dp)
            .wait(first_host_link)
            .wait(first_host_link + 1)
            .trace();
    };
    CHECK(time_of(copies(8), data_and_tensor, hardware).seconds == Approx(4));
    const StepTime longer = time_of(copies(14), data_and_tensor, hardware);
    CHECK(longer.seconds == Approx(7));
    CHECK(longer[Spent::offload] == Approx(3));
    // A CPU reads and writes its memory meanwhile.
    hardware.kind = DeviceChoice::cpu;
    hardware.device.copy_bandwidth = 0;
    const StepTime on_cpu =
        time_of(Script().op(gemm(4)).copies(0, 3).wait(first_host_link).trace(), {}, hardware);
    CHECK(on_cpu.seconds == Approx(4 + 2 * 3));
}

// The second reduction waits for the first, and in the order of issue the sum over tp for both.
TEST_CASE("in the order of issue a message is held up by queues of other communicators") {
    const StepTrace step = Script()
                               .message(Axis::dp, 10)
                               .message(Axis::dp, 10)
                               .message(Axis::tp, 1)
                               .wait(Axis::tp)
                               .op(gemm(20))
                               .wait(Axis::dp)
                               .trace();
    const StepTime in_order = time_of(step, data_and_tensor);
    CHECK(in_order.seconds == Approx(31));
    CHECK(in_order[Spent::dp] == Approx(10));
    CHECK(in_order[Spent::tp] == Approx(1));
    HardwareProfile hardware = unit_hardware();
    hardware.software.in_order = false;
    const StepTime free = time_of(step, data_and_tensor, hardware);
    CHECK(free.seconds == Approx(21));
    CHECK(free[Spent::dp] == Approx(0));
}

TEST_CASE("a message in flight takes computing speed") {
    HardwareProfile hardware = unit_hardware();
    hardware.software.slowdown = 0.5;
    const auto step = [](std::int64_t bytes) {
        return Script().message(Axis::dp, bytes).op(gemm(2)).op(gemm(2)).wait(Axis::dp).trace();
    };
    // Half of the message's second is lost, or half of the first op's four seconds.
    CHECK(time_of(step(1), data_and_tensor, hardware).seconds == Approx(4 + 0.5));
    CHECK(time_of(step(4), data_and_tensor, hardware).seconds == Approx(4 + 2));
}

TEST_CASE("a message over a slower network takes less computing speed") {
    HardwareProfile hardware = unit_hardware();
    hardware.software.slowdown = 0.5;
    hardware.node.link.bandwidth = 2;
    const StepTrace step = Script().message(Axis::dp, 4).op(gemm(8)).wait(Axis::dp).trace();
    CHECK(time_of(step, data_and_tensor, hardware).seconds == Approx(8 + 4 * 0.25));
}

// The second stage computes while the first one computes what it sends.
TEST_CASE("a message takes no computing speed before its data move") {
    HardwareProfile hardware = unit_hardware();
    hardware.software.slowdown = 0.5;
    const auto time = [&](double flops) {
        const StepTrace first = Script()
                                    .message(Axis::model, 0, "all_reduce")
                                    .op(gemm(4))
                                    .action()
                                    .between("send", 1, 2)
                                    .wait(100)
                                    .trace();
        const StepTrace second = Script()
                                     .message(Axis::model, 0, "all_reduce")
                                     .wait(Axis::model)
                                     .between("recv", 0, 0)
                                     .op(gemm(flops))
                                     .wait(101)
                                     .action()
                                     .trace();
        return time_of(std::vector{first, second}, {.pipeline = 2}, hardware).seconds;
    };
    CHECK(time(4) == Approx(4 + 2));
    // The data move in two of its seconds.
    CHECK(time(6) == Approx(6 + 1));
}

TEST_CASE("a message holds multiprocessors, which GEMMs feel, and other ops while data move") {
    HardwareProfile hardware = unit_hardware();
    hardware.device.multiprocessors = 32;
    const auto step = [](const OpWork& work, std::int64_t bytes) {
        return Script().message(Axis::dp, bytes).op(work).wait(Axis::dp).trace();
    };
    const auto time = [&](const OpWork& work, std::int64_t bytes) {
        return time_of(step(work, bytes), data_and_tensor, hardware).seconds;
    };
    // A sum over dp holds 16 of them.
    CHECK(time(gemm(4), 2) == Approx(4 + 1));
    CHECK(time(gemm(4), 100) == Approx(100));
    CHECK(time(traffic(4), 2) == Approx(4 + 1));
    // The measured factor holds for GEMMs alone.
    hardware.device.gemm_crowding = 4;
    CHECK(time(gemm(4), 2) == Approx(4 + 1.5));
    CHECK(time(traffic(4), 2) == Approx(4 + 1));
}

TEST_CASE("a message that is a copy holds no multiprocessor") {
    HardwareProfile hardware = unit_hardware();
    hardware.device.multiprocessors = 32;
    hardware.node.devices = 8;
    PipelineTraces pipeline = {
        .mesh = {.tensor = 8},
        .stages = {Script().message(Axis::tp, 2).op(gemm(4)).wait(Axis::tp).trace()}};
    CHECK(time_step(pipeline, hardware).seconds == Approx(4 + 1));
    pipeline.peer_messages = true;
    CHECK(time_step(pipeline, hardware).seconds == Approx(4));
    // The host issues a copy for each other rank, a wait and flags, at both ends, and six events.
    hardware.device.issue_seconds = 0.25;
    hardware.device.message_issue_seconds = 100;
    CHECK(time_step(pipeline, hardware).seconds == Approx(0.25 * (6 + 2 * (7 + 2)) + 0.25));
    hardware.device.issue_seconds = hardware.device.message_issue_seconds = 0;
    // Over the network NCCL sends it.
    hardware.node.devices = 4;
    CHECK(time_step(pipeline, hardware).seconds > 4.5);
}

TEST_CASE("a receive holds multiprocessors while it waits") {
    HardwareProfile hardware = unit_hardware();
    hardware.device.multiprocessors = 8;
    const auto time = [&](const OpWork& behind) {
        const StepTrace first = Script()
                                    .message(Axis::model, 0, "all_reduce")
                                    .wait(Axis::model)
                                    .op(gemm(10))
                                    .action()
                                    .between("send", 1, 2)
                                    .wait(100)
                                    .trace();
        const StepTrace second = Script()
                                     .message(Axis::model, 0, "all_reduce")
                                     .wait(Axis::model)
                                     .between("recv", 0, 0)
                                     .op(behind)
                                     .op(gemm(20))
                                     .wait(101)
                                     .action()
                                     .trace();
        return time_of(std::vector{first, second}, {.pipeline = 2}, hardware).seconds;
    };
    // It is there after 12 s, and holds 4 of the 8 until then: 6 s are lost.
    CHECK(time(gemm(2)) == Approx(2 + 20 + 6));
    // Two seconds of memory's work are not slowed down.
    CHECK(time(traffic(2)) == Approx(2 + 20 + 5));
}

TEST_CASE("the host may take longer for a message than for an op") {
    HardwareProfile hardware = unit_hardware();
    hardware.device.issue_seconds = 1;
    const StepTrace step = Script().message(Axis::dp, 0).wait(Axis::dp).op(gemm(1)).trace();
    CHECK(time_of(step, data_and_tensor, hardware).seconds == Approx(1 + 1));
    hardware.device.message_issue_seconds = 5;
    CHECK(time_of(step, data_and_tensor, hardware).seconds == Approx(5 + 1));
}

TEST_CASE("GEMMs wait for the slowest device, and other ops do not") {
    HardwareProfile hardware = unit_hardware();
    hardware.device.spread = 0.1;
    hardware.device.op_spread = 0.05;
    hardware.software.speed = 0.5;
    const StepTrace step = Script().op(gemm(3)).op(traffic(2)).trace();
    CHECK(time_of(step, {}, hardware)[Spent::gemms] == Approx(6));
    const StepTime time = time_of(step, data_and_tensor, hardware);
    // Four ranks, of which pairs share a model.
    CHECK(time[Spent::gemms] == Approx(6 * slowest(0.1, 4) * slowest(0.05, 2)));
    CHECK(time[Spent::other] == Approx(2));
}

TEST_CASE("weights of the last step arrive behind the first ops") {
    // Gathered at the end of a step, waited for in the next one.
    const StepTrace step = Script()
                               .op(gemm(2))
                               .wait(Axis::dp)
                               .action()
                               .op(gemm(3))
                               .action()
                               .message(Axis::dp, 7, "all_gather")
                               .trace();
    const StepTime time = time_of(step, data_and_tensor);
    CHECK(time.seconds == Approx(2 + 5 + 3));
    CHECK(time[Spent::dp] == Approx(5));
    HardwareProfile hardware = unit_hardware();
    hardware.software.overlap_params = false;
    CHECK(time_of(step, data_and_tensor, hardware).seconds == Approx(2 + 3 + 7));
}

TEST_CASE("software that does not overlap reduces after the last action") {
    HardwareProfile hardware = unit_hardware();
    hardware.software.overlap_grads = false;
    const StepTrace step = Script()
                               .op(gemm(1))
                               .message(Axis::dp, 4)
                               .op(gemm(5))
                               .action()
                               .op(gemm(2))
                               .action(1)
                               .wait(Axis::dp)
                               .trace();
    const StepTime time = time_of(step, data_and_tensor, hardware);
    CHECK(time.seconds == Approx(12));
    CHECK(time[Spent::dp] == Approx(4));
}

// The first stage reduces after it has sent what the second one waits for.
TEST_CASE("software that does not overlap sends to other stages before it reduces") {
    HardwareProfile hardware = unit_hardware();
    hardware.software.overlap_grads = false;
    const auto sum = [](Script& script) {
        script.message(Axis::model, 0, "all_reduce").wait(Axis::model);
        return script.trace();
    };
    const StepTrace first = sum(Script()
                                    .message(Axis::dp, 4)
                                    .op(gemm(1))
                                    .action()
                                    .between("send", 1, 2)
                                    .wait(100)
                                    .wait(Axis::dp));
    const StepTrace second =
        sum(Script().between("recv", 0, 0).wait(101).op(gemm(3)).action().op(gemm(1)));
    const StepTime time =
        time_of(std::vector{first, second}, {.data = 2, .pipeline = 2, .tensor = 1}, hardware);
    CHECK(time.seconds == Approx(1 + 2 + 4));
}

TEST_CASE("software that does not overlap tensor parallelism computes after the message") {
    const StepTrace step =
        Script().message(Axis::tp, 4).op(gemm(5)).wait(Axis::tp).op(gemm(1)).trace();
    CHECK(time_of(step, data_and_tensor).seconds == Approx(6));
    HardwareProfile hardware = unit_hardware();
    hardware.software.overlap_tensor = false;
    const StepTime time = time_of(step, data_and_tensor, hardware);
    CHECK(time.seconds == Approx(10));
    CHECK(time[Spent::tp] == Approx(4));
}

TEST_CASE("software that does not overlap messages to other stages sends before it goes on") {
    const StepTrace first = Script()
                                .op(gemm(1))
                                .action()
                                .between("send", 1, 4)
                                .op(gemm(5))
                                .wait(100)
                                .message(Axis::model, 0, "all_reduce")
                                .wait(Axis::model)
                                .trace();
    const StepTrace second = Script()
                                 .between("recv", 0, 0)
                                 .wait(101)
                                 .action()
                                 .message(Axis::model, 0, "all_reduce")
                                 .wait(Axis::model)
                                 .trace();
    HardwareProfile hardware = unit_hardware();
    CHECK(time_of(std::vector{first, second}, {.pipeline = 2}, hardware).seconds == Approx(1 + 5));
    hardware.software.overlap_boundary = false;
    CHECK(time_of(std::vector{first, second}, {.pipeline = 2}, hardware).seconds ==
          Approx(1 + 4 + 5));
}

TEST_CASE("stages wait for each other's messages") {
    const StepTrace first = Script().op(gemm(3)).action().between("send", 1, 2).wait(100).trace();
    const StepTrace second = Script()
                                 .between("recv", 0, 0)
                                 .wait(101)
                                 .op(gemm(4))
                                 .action()
                                 .message(Axis::model, 0, "all_reduce")
                                 .wait(Axis::model)
                                 .trace();
    // The first stage meets the second one in a sum too, so that steps do not overlap.
    StepTrace last = first;
    last.messages.push_back({.axis = Axis::model,
                             .communicator = static_cast<int>(Axis::model),
                             .operation = "all_reduce"});
    last.bodies.push_back({{TraceEvent::Kind::message, 1, 0},
                           {TraceEvent::Kind::wait, static_cast<int>(Axis::model), 0}});
    last.parts.push_back({static_cast<std::int32_t>(last.bodies.size()) - 1, {}});
    const StepTime time = time_of(std::vector{last, second}, {.pipeline = 2});
    CHECK(time.seconds == Approx(3 + 2 + 4));
    CHECK(time[Spent::bubble] + time[Spent::pp] == Approx(time.seconds - time[Spent::gemms]));
    REQUIRE(time.timeline.events.size() == 2);
}

TEST_CASE("a deadlock is reported") {
    // Each waits for the other's send, which comes after its own receive.
    const auto stage = [](std::int64_t peer) {
        return Script()
            .between("recv", peer, 0)
            .wait(101)
            .op(gemm(1))
            .action()
            .between("send", peer, 1)
            .trace();
    };
    CHECK_THROWS_WITH(
        time_of(std::vector{stage(1), stage(0)}, {.pipeline = 2}),
        contains_text("stage 0") && contains_text("stage 1") && contains_text("deadlock"));
}

}  // namespace gptrain::test
