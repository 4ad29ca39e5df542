// Records in shared memory and in files.
#include "watch/heartbeats.h"

#include <chrono>
#include <thread>
#include <unistd.h>

#include "catch.h"
#include "support/temp_folder.h"
#include "watch/hang_report.h"
#include "watch/process_state.h"
#include "watch/progress.h"
#include "watch/watchdog.h"

namespace gptrain::test {

TEST_CASE("short text is cut and kept") {
    CHECK(ShortText<8>("F3").view() == "F3");
    CHECK(ShortText<8>("all_reduce").view() == "all_redu");
    CHECK(ShortText<8>().view().empty());
}

TEST_CASE("a record is read whole while it is written") {
    const MpiSession session;
    const Heartbeats heartbeats(session);
    RankSlot& slot = heartbeats.own();
    slot.publish({});
    std::jthread writer([&](const std::stop_token& stop) {
        for (std::int64_t i = 1; !stop.stop_requested(); ++i) {
            RankRecord record;
            record.pid = record.step = record.number = record.world_operations = i;
            slot.publish(record);
            // A writer that never pauses would give a slow reader no time to read.
            if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    });
    for (int i = 0; i < 20'000; ++i) {
        const RankRecord record = slot.record();
        REQUIRE((record.pid == record.world_operations && record.step == record.number &&
                 record.pid == record.step));
    }
}

TEST_CASE("a rank's record says what it does and last did with others") {
    const MpiSession session;
    const Heartbeats heartbeats(session);
    Progress progress(heartbeats.own());
    const auto said = [&] { return to_text(heartbeats.own().record()); };
    CHECK(said() == "start");
    progress.phase("step", 12);
    progress.on_reached({.kind = ActionKind::backward, .microbatch = 3, .chunk = 1});
    CHECK(said() == "step 12, BW of microbatch 3, chunk 1");
    const CommCall call = {Axis::cp, 1, "send_recv", 7, 100};
    progress.on_started(call);
    CHECK(said() == "step 12, BW of microbatch 3, chunk 1, after send_recv 7 on cp");
    progress.on_waiting(call);
    CHECK(said() == "step 12, BW of microbatch 3, chunk 1, waits in send_recv 7 on cp");
    progress.on_finished(call);
    progress.on_reached(
        {.kind = ActionKind::receive_gradients, .microbatch = 4, .chunk = 0, .peer = 2});
    CHECK(said() == "step 12, RB of microbatch 4 from stage 2, after send_recv 7 on cp");
    progress.on_step_end();
    progress.on_wait("largest");
    CHECK(said() == "step 12, waits in largest 1 on world");
    CHECK(heartbeats.own().moves() == 9);
    progress.phase("step", 13);
    CHECK(heartbeats.own().record().first_step == 12);
}

TEST_CASE("a rank's device says what the rank waits for, unless its host waits") {
    const MpiSession session;
    const Heartbeats heartbeats(session);
    Progress progress(heartbeats.own());
    const auto said = [&] { return to_text(heartbeats.own().record()); };
    progress.phase("step", 12);
    // The host is two operations ahead, and waits for the device.
    for (const std::int64_t number : {6, 7, 8}) {
        const CommCall call = {Axis::dp, 2, "all_reduce", number, 100};
        progress.on_started(call);
        progress.on_waiting(call);
        progress.on_finished(call);
    }
    CHECK(said() == "step 12, after all_reduce 8 on dp");
    DeviceProgress device = {
        .unfinished = 3, .running = CommCall{Axis::dp, 2, "all_reduce", 6, 100}, .started = {}};
    device.started[2] = 6;
    const std::int64_t moves = heartbeats.own().moves();
    progress.on_device(device);
    CHECK(said() == "step 12, waits in all_reduce 6 on dp");
    CHECK(heartbeats.own().record().started[2] == 6);
    CHECK(heartbeats.own().moves() == moves + 1);
    // It computes.
    device.unfinished = 2;
    device.running.reset();
    progress.on_device(device);
    CHECK(said() == "step 12, after all_reduce 8 on dp");
    CHECK(heartbeats.own().record().waiting == 0);
    progress.on_wait("largest");
    CHECK(said() == "step 12, waits in largest 1 on world");
    CHECK(heartbeats.own().record().started[2] == 6);
    progress.on_wait_end();
    progress.on_device({});
    CHECK(heartbeats.own().record().started[2] == 8);
}

TEST_CASE("of ranks whose hosts all wait for devices the one is named that computes") {
    // Two dp ranks: the device of rank 1 has not come to operation 7, that of rank 0 runs it.
    const MeshShape mesh = {.data = 2};
    std::vector<RankView> ranks(2);
    for (RankView& rank : ranks)
        rank.record.started[static_cast<std::size_t>(Axis::dp)] = 20;
    CHECK(find_culprit(ranks, mesh) == Culprit{0, HangCause::busy});
    DeviceRecord device;
    device.unfinished = 14;
    device.started.fill(6);
    ranks[1].record = with_device(ranks[1].record, device);
    device.axis = ShortText<24>("dp");
    device.number = 7;
    device.waiting = 1;
    device.started[static_cast<std::size_t>(Axis::dp)] = 7;
    ranks[0].record = with_device(ranks[0].record, device);
    CHECK(find_culprit(ranks, mesh) == Culprit{1, HangCause::busy});
}

TEST_CASE("a rank that never connects is named by those that do") {
    const MpiSession session;
    const Heartbeats heartbeats(session);
    Progress progress(heartbeats.own());
    std::vector<RankView> ranks(3);
    ranks[1].record = heartbeats.own().record();
    const CommCall connection = {Axis::tp, 0, "connect", 0, 0};
    progress.on_started(connection);
    progress.on_waiting(connection);
    ranks[0].record = ranks[2].record = heartbeats.own().record();
    CHECK(to_text(ranks[0].record) == "start, waits in connect 0 on tp");
    CHECK(find_culprit(ranks, {.tensor = 3}) == Culprit{1, HangCause::busy});
    // Even if it waits for something else.
    ranks[1].record.waiting = 1;
    CHECK(find_culprit(ranks, {.tensor = 3}) == Culprit{1, HangCause::behind});
}

TEST_CASE("a rank that moves, or works on files, is left alone") {
    const MpiSession session;
    const TempFolder folder;
    // If it were killed, the whole test would be.
    Watchdog watchdog(session, {.hang_seconds = 1});
    for (int i = 0; i < 30; ++i) {
        watchdog.progress().record_move();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    watchdog.progress().phase("save", 1);
    const std::string block(1 << 20, 'x');
    for (int i = 0; i < 6; ++i) {
        fill(folder / "block", block);
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
}

TEST_CASE("bytes of system calls are counted") {
    const TempFolder folder;
    const std::int64_t before = bytes_read_and_written();
    fill(folder / "block", std::string(1 << 20, 'x'));
    CHECK(bytes_read_and_written() >= before + (1 << 20));
}

TEST_CASE("a process that is gone is told from one that runs") {
    CHECK(describe_process_state(::getpid()).empty());
    CHECK(describe_process_state(std::int64_t{1} << 30) == "its process is gone");
}

}  // namespace gptrain::test
