#include "schedule/schedule.h"

#include "catch.h"

using namespace gptrain;

TEST_CASE("schedules of one stage", "[schedule]") {
    CHECK(to_text(make_schedule(ScheduleKind::one_f_one_b, 3)) == "F0 BW0 F1 BW1 F2 BW2");
    CHECK(to_text(make_schedule(ScheduleKind::gpipe, 3)) == "F0 F1 F2 BW2 BW1 BW0");
    CHECK(to_text(make_schedule(ScheduleKind::zero_bubble, 2)) == "F0 B0 W0 F1 B1 W1");
    CHECK(make_schedule(ScheduleKind::one_f_one_b, 5).slots == 1);
    CHECK(make_schedule(ScheduleKind::gpipe, 5).slots == 5);
    CHECK(make_schedule(ScheduleKind::zero_bubble, 5).defers_weights);
}
