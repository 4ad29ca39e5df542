#include "stored/expert_slices.h"

#include <vector>

#include "base/error.h"
#include "catch.h"

namespace gptrain {
namespace {

void take_steps(ExpertSlices& slices, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
        slices.next_step();
}

TEST_CASE("slices double with each repeat, up to the most") {
    ExpertSlices slices(6);
    slices.next_step();
    CHECK(slices.now() == 1);
    for (const std::int64_t expected : {2, 4, 6}) {
        CHECK(slices.repeat_step());
        CHECK(slices.now() == expected);
    }
    CHECK_FALSE(slices.repeat_step());
    CHECK(slices.now() == 6);
    CHECK(slices.repeats() == 3);
}

TEST_CASE("slices halve after a hundred steps without a repeat, rounded up") {
    ExpertSlices slices(5);
    slices.next_step();
    while (slices.repeat_step()) {
    }
    for (const std::int64_t expected : {5, 3, 2}) {
        // The step that was repeated, or the first one after a fall, is one of the hundred.
        CHECK(slices.now() == expected);
        take_steps(slices, ExpertSlices::patience - 1);
        CHECK(slices.now() == expected);
        slices.next_step();
    }
    CHECK(slices.now() == 1);
    take_steps(slices, 3 * ExpertSlices::patience);
    CHECK(slices.now() == 1);
    CHECK(slices.repeats() == 3);
}

TEST_CASE("a repeat begins the hundred steps again") {
    ExpertSlices slices(8);
    slices.next_step();
    slices.repeat_step();
    take_steps(slices, 60);
    slices.repeat_step();
    take_steps(slices, ExpertSlices::patience - 1);
    CHECK(slices.now() == 4);
    slices.next_step();
    CHECK(slices.now() == 2);
}

TEST_CASE("a resumed run goes on as one that never stopped") {
    const int resumed_after = GENERATE(1, 6, 7, 8, 106, 107, 108, 207);
    CAPTURE(resumed_after);
    ExpertSlices whole(8);
    ExpertSlices parts(8);
    const auto step = [](ExpertSlices& slices, int number) {
        slices.next_step();
        if (number == 7) {
            slices.repeat_step();
            slices.repeat_step();
        }
    };
    std::vector<std::int64_t> seen;
    for (int number = 1; number <= 220; ++number) {
        step(whole, number);
        step(parts, number);
        if (number == resumed_after) {
            const Json saved = parse_json(parts.to_json().dump(), "test");
            parts = ExpertSlices(8);
            parts.restore(saved, "test");
        }
        CHECK(parts == whole);
        if (seen.empty() || seen.back() != whole.now()) seen.push_back(whole.now());
    }
    CHECK(seen == std::vector<std::int64_t>{1, 4, 2, 1});
}

TEST_CASE("another mesh starts with what was saved, as far as it needs it") {
    ExpertSlices before(8);
    before.next_step();
    before.repeat_step();
    before.repeat_step();
    ExpertSlices after(3);
    after.restore(before.to_json(), "test");
    CHECK(after.now() == 3);
    CHECK(after.repeats() == 2);
    CHECK_FALSE(after.repeat_step());
}

TEST_CASE("a run whose messages hold any choice saves nothing, which is the state of a new run") {
    CHECK(ExpertSlices(1).to_json().is_null());
    ExpertSlices slices(8);
    slices.next_step();
    slices.repeat_step();
    slices.restore(Json(), "test");
    CHECK(slices == ExpertSlices(8));
}

TEST_CASE("saved slices that no run has are refused by name") {
    const auto [key, value] =
        GENERATE(table<std::string, std::int64_t>({{"slices", 0}, {"since", -1}, {"repeats", -1}}));
    Json saved = ExpertSlices(8).to_json();
    saved[key] = value;
    ExpertSlices slices(8);
    try {
        slices.restore(saved, "step-7: state.expert_slices");
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::bad_input);
        CHECK(std::string(error.what()).find("expert_slices: '" + key) != std::string::npos);
    }
    saved.erase(key);
    CHECK_THROWS_AS(slices.restore(saved, "test"), Error);
}

}  // namespace
}  // namespace gptrain
