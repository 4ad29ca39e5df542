// Who is to blame, compared with the plain definition, which looks at all pairs of ranks; and how
// long the answer takes for 16,384 ranks.
#include "watch/waits.h"

#include <chrono>
#include <random>
#include <set>

#include "catch.h"
#include "watch/hang_report.h"

namespace gptrain::test {
namespace {

/// True if two ranks share a communicator of that axis.
bool share_communicator(Axis axis, const MeshPlace& a, const MeshPlace& b, const MeshShape& mesh) {
    const bool dp = a.dp == b.dp;
    const bool pp = a.pp == b.pp;
    const bool cp = a.cp == b.cp;
    const bool tp = a.tp == b.tp;
    const auto at_end = [&](const MeshPlace& place) {
        return place.pp == 0 || place.pp == mesh.pipeline - 1;
    };
    const auto among_tokens = [&](const MeshPlace& place) {
        return (place.dp * mesh.context + place.cp) * mesh.tensor + place.tp;
    };
    const auto among_copies = [&](const MeshPlace& place) {
        return place.dp * mesh.context + place.cp;
    };
    switch (axis) {
        case Axis::tp: return dp && pp && cp;
        case Axis::cp: return dp && pp && tp;
        case Axis::dp: return pp && cp && tp;
        case Axis::pp: return dp && cp && tp;
        case Axis::dp_cp: return pp && tp;
        case Axis::shard:
            return pp && tp && among_copies(a) / mesh.shard == among_copies(b) / mesh.shard;
        case Axis::shard_copies:
            return pp && tp && among_copies(a) % mesh.shard == among_copies(b) % mesh.shard;
        case Axis::model: return dp && cp;
        case Axis::kv: return dp && pp && cp;
        case Axis::tokens: return pp;
        case Axis::experts:
            return pp && among_tokens(a) / mesh.expert == among_tokens(b) / mesh.expert;
        case Axis::expert_copies:
            return pp && among_tokens(a) % mesh.expert == among_tokens(b) % mesh.expert;
        case Axis::embedding_ends: return dp && cp && tp && at_end(a) && at_end(b);
    }
    return false;
}

/// True if rank `a`, which waits, waits for rank `b`.
bool waits_for(const std::vector<RankView>& ranks, int a, int b, const MeshShape& mesh) {
    const RankRecord& own = ranks[static_cast<std::size_t>(a)].record;
    const RankRecord& other = ranks[static_cast<std::size_t>(b)].record;
    if (own.waiting == 0 || a == b) return false;
    if (own.axis.view() == "world") return other.world_operations < own.number;
    for (std::size_t index = 0; index < axes; ++index) {
        const auto axis = static_cast<Axis>(index);
        if (own.axis.view() == name_of(axis) && own.started[index] == own.number &&
            share_communicator(axis, place_of(a, mesh), place_of(b, mesh), mesh) &&
            other.started[index] < own.number)
            return true;
    }
    return false;
}

std::optional<int> first_awaited_by(const std::vector<RankView>& ranks, int a,
                                    const MeshShape& mesh) {
    for (int b = 0; b < std::ssize(ranks); ++b)
        if (waits_for(ranks, a, b, mesh)) return b;
    return std::nullopt;
}

Culprit blamed_by_pairs(const std::vector<RankView>& ranks, const MeshShape& mesh) {
    const int count = static_cast<int>(ranks.size());
    std::set<int> busy;
    std::set<int> awaited;
    for (int a = 0; a < count; ++a) {
        if (!ranks[static_cast<std::size_t>(a)].alive) return {a, HangCause::lost};
        if (ranks[static_cast<std::size_t>(a)].record.waiting == 0) busy.insert(a);
    }
    for (const int b : busy)
        for (int a = 0; a < count; ++a)
            if (waits_for(ranks, a, b, mesh)) awaited.insert(b);
    if (!awaited.empty()) return {*awaited.begin(), HangCause::busy};
    if (!busy.empty()) return {*busy.begin(), HangCause::busy};
    for (int start = 0; start < count; ++start) {
        if (!first_awaited_by(ranks, start, mesh)) continue;
        std::set<int> seen;
        int rank = start;
        while (const auto next = first_awaited_by(ranks, rank, mesh)) {
            if (!seen.insert(rank).second) return {rank, HangCause::cycle};
            rank = *next;
        }
        return {rank, HangCause::behind};
    }
    return {};
}

class RandomHang {
public:
    explicit RandomHang(unsigned seed) : random_(seed) {}

    int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

    MeshShape mesh() {
        MeshShape mesh = {1 + below(3), 1 + below(4), 1 + below(3), 1 + below(3)};
        for (const std::int64_t size : {mesh.tensor, mesh.context, mesh.data}) {
            if (below(2) == 0) break;
            mesh.expert *= size;
        }
        return mesh;
    }

    /// `lost`, `busy`: how many of 100 ranks.
    RankView view(int lost, int busy) {
        RankView view;
        view.alive = below(100) >= lost;
        RankRecord& record = view.record;
        for (std::int64_t& started : record.started)
            started = 3 + below(3);
        record.world_operations = 3 + below(2);
        record.waiting = below(100) < busy ? 0 : 1;
        const int axis = below(axes + 1);
        const bool world = axis == axes;
        record.axis = ShortText<24>(world ? "world" : name_of(static_cast<Axis>(axis)));
        record.number =
            world ? record.world_operations : record.started[static_cast<std::size_t>(axis)];
        // A message between stages, or a record that was read while it was written.
        if (below(8) == 0) record.number = 3 + below(4);
        return view;
    }

private:
    std::mt19937 random_;
};

}  // namespace

TEST_CASE("the blame is that of the definition, for thousands of random hangs") {
    std::map<HangCause, int> causes;
    for (unsigned seed = 0; seed < 4000; ++seed) {
        CAPTURE(seed);
        RandomHang random(seed);
        const MeshShape mesh = random.mesh();
        const int lost = seed % 8 == 0 ? 5 : 0;
        const int busy = seed % 3 == 0 ? 30 : 0;
        std::vector<RankView> ranks;
        for (std::int64_t rank = 0; rank < mesh.size(); ++rank)
            ranks.push_back(random.view(lost, busy));
        const Culprit blamed = find_culprit(ranks, mesh);
        REQUIRE(blamed == blamed_by_pairs(ranks, mesh));
        ++causes[blamed.cause];
        const Waits waits(ranks, mesh);
        for (int rank = 0; rank < mesh.size(); ++rank)
            REQUIRE(waits.first_awaited_by(rank) == first_awaited_by(ranks, rank, mesh));
    }
    for (const HangCause cause : {HangCause::lost, HangCause::busy, HangCause::behind,
                                  HangCause::cycle, HangCause::unknown})
        CHECK(causes[cause] > 50);
}

namespace {

constexpr MeshShape large = {.data = 256, .pipeline = 8, .tensor = 8};

/// All wait in operation 8 of that axis, which all have started.
std::vector<RankView> all_waiting(Axis axis) {
    RankView view;
    view.record.host = ShortText<64>("node");
    view.record.phase = ShortText<16>("step");
    view.record.step = 12;
    view.record.axis = ShortText<24>(name_of(axis));
    view.record.operation = ShortText<16>("all_reduce");
    view.record.number = 8;
    view.record.waiting = 1;
    view.record.started.fill(8);
    return std::vector<RankView>(static_cast<std::size_t>(large.size()), view);
}

double seconds_of(const std::function<void()>& act) {
    const auto start = std::chrono::steady_clock::now();
    act();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void report_within_its_time(const std::vector<RankView>& ranks, const Culprit& expected) {
    Culprit blamed;
    const double seconds = seconds_of([&] {
        blamed = find_culprit(ranks, large);
        hang_message(ranks, large, "", {.seconds = 600, .hang_seconds = 600});
        hang_table(ranks);
    });
    CHECK(blamed == expected);
    // A tenth of the report's time limit, even on a busy machine.
    CHECK(seconds < 0.2);
}

}  // namespace

TEST_CASE("16,384 ranks are reported in a fraction of the time to speak") {
    const int last = static_cast<int>(large.size()) - 1;
    std::vector<RankView> ranks = all_waiting(Axis::dp);
    SECTION("one is lost") {
        ranks.back().alive = false;
        report_within_its_time(ranks, {last, HangCause::lost});
    }
    SECTION("one is busy") {
        ranks.back().record.waiting = 0;
        ranks.back().record.started.fill(7);
        report_within_its_time(ranks, {last, HangCause::busy});
    }
    SECTION("half of them are busy, and each is elsewhere") {
        for (int rank = 0; rank <= last; ++rank) {
            RankRecord& record = ranks[static_cast<std::size_t>(rank)].record;
            record.step = rank;
            record.waiting = rank % 2;
        }
        report_within_its_time(ranks, {0, HangCause::busy});
    }
    SECTION("each waits for the next one") {
        for (int rank = 0; rank <= last; ++rank) {
            RankRecord& record = ranks[static_cast<std::size_t>(rank)].record;
            record.axis = ShortText<24>("world");
            record.world_operations = record.number = last + 1 - rank;
        }
        report_within_its_time(ranks, {last, HangCause::behind});
    }
    SECTION("none is behind") {
        report_within_its_time(ranks, {0, HangCause::unknown});
    }
}

}  // namespace gptrain::test
