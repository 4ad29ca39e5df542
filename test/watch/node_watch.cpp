// How nodes find a hang together: simulated nodes, each with its own clock, that write and read
// news. Some news is late by a random time, and some is lost.
#include "watch/node_watch.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "catch.h"

namespace gptrain::test {
namespace {

constexpr std::int64_t second = 1000;
constexpr WatchTimes minute = {.hang = 60 * second, .limit = 60 * second, .silent = 10 * second};
constexpr std::int64_t never = std::int64_t{1} << 60;

/// A node that does what HeartbeatFiles does. All times are those of the simulation, from which the
/// node's clock differs.
struct Node {
    NodeFindings findings{};
    std::vector<NodeSlot> slots;
    std::unique_ptr<NodeWatch> watch;
    std::int64_t clock = 0;  ///< minus the simulation's
    std::int64_t moved = 0;
    std::int64_t hang = 0;  ///< that it has learned, if not that of all
    std::int64_t lost_at = never;
    std::int64_t next_look = 0;
    std::int64_t wrote = -second;
    std::int64_t next_pass = 0;
    std::int64_t hang_at = never;  ///< when it knows of a hang
    std::int64_t opens = 0;
    std::int64_t most_opens = 0;  ///< in a pass
};

/// News, and when others can read them.
struct Written {
    std::int64_t visible = 0;
    NodeNews news;
};

class Cluster {
public:
    Cluster(int nodes, unsigned seed, const WatchTimes& times = minute)
        : times_(times),
          random_(seed),
          nodes_(static_cast<std::size_t>(nodes)),
          files_(nodes_.size()) {
        for (int i = 0; i < nodes; ++i) {
            Node& node = (*this)[i];
            node.slots = std::vector<NodeSlot>(nodes_.size());
            node.watch = std::make_unique<NodeWatch>(node.findings, node.slots, i, times_);
            node.clock = 1'000'000 + below(1'000'000'000);
            node.next_look = below(250);
        }
    }

    Node& operator[](int node) { return nodes_[static_cast<std::size_t>(node)]; }
    int size() const { return static_cast<int>(nodes_.size()); }
    std::int64_t below(std::int64_t limit) {
        return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random_);
    }

    std::int64_t most_delay = 200;             ///< of news
    std::int64_t hang = 0;                     ///< that the nodes have learned; 0: none
    std::map<int, std::int64_t> move_periods;  ///< of nodes that move again and again

    /// Until that time, or until all nodes that run know of a hang.
    void run_until(std::int64_t end) {
        for (; now_ < end && !all_know(); now_ += 50)
            for (int i = 0; i < size(); ++i)
                if (now_ >= (*this)[i].next_look && now_ < (*this)[i].lost_at) look(i);
    }
    bool all_know() {
        return std::all_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
            return node.lost_at <= now_ || node.hang_at != never;
        });
    }
    bool any_knows() {
        return std::any_of(nodes_.begin(), nodes_.end(),
                           [](const Node& node) { return node.hang_at != never; });
    }
    std::int64_t first_to_know() {
        std::int64_t first = never;
        for (const Node& node : nodes_)
            first = std::min(first, node.hang_at);
        return first;
    }
    std::int64_t last_to_know() {
        std::int64_t last = 0;
        for (const Node& node : nodes_)
            if (node.lost_at == never) last = std::max(last, node.hang_at);
        return last;
    }
    std::int64_t opens() {
        std::int64_t sum = 0;
        for (const Node& node : nodes_)
            sum += node.opens;
        return sum;
    }
    std::vector<int> reporters() {
        std::vector<int> found;
        for (int i = 0; i < size(); ++i)
            if ((*this)[i].watch->hang() == NodeWatch::to_report) found.push_back(i);
        return found;
    }

private:
    void look(int i) {
        Node& node = (*this)[i];
        node.next_look = now_ + 250 + below(20);
        const auto moves = move_periods.find(i);
        if (moves != move_periods.end() && now_ - node.moved >= moves->second) node.moved = now_;
        const std::int64_t now = now_ + node.clock;
        const std::int64_t moved = node.moved + node.clock;
        node.watch->set_hang(node.hang != 0 ? node.hang : hang);
        const WatchTimes times = node.watch->times();
        const std::int64_t too_long = node.moved + times.hang;
        const bool urgent = now_ >= too_long && node.wrote < too_long;
        const bool near = node.watch->should_read(now, moved);
        const std::int64_t period = near && times.silent < times_.silent ? second / 2 : second;
        if (now_ >= node.wrote + period || urgent) {
            write(i);
            node.wrote = now_;
        }
        if (node.hang_at != never || !near) return;
        if (now_ >= node.next_pass) {
            pass(node, now);
            node.next_pass = now_ + period;
        }
        node.watch->judge(now, moved);
        if (node.watch->hang() == NodeWatch::no_hang) return;
        node.hang_at = now_;
        write(i);
    }
    void write(int i) {
        Node& node = (*this)[i];
        std::deque<Written>& file = files_[static_cast<std::size_t>(i)];
        // Old versions that nobody can read any more.
        while (file.size() > 1 && file[1].visible <= now_)
            file.pop_front();
        file.push_back({now_ + below(most_delay + 1),
                        node.watch->news(now_ + node.clock, node.moved + node.clock)});
    }
    void pass(Node& node, std::int64_t now) {
        const std::vector<int> wanted = node.watch->begin_pass(now);
        for (const int other : wanted) {
            const std::deque<Written>& file = files_[static_cast<std::size_t>(other)];
            const NodeNews* newest = nullptr;
            for (const Written& version : file)
                if (version.visible <= now_) newest = &version.news;
            if (newest != nullptr) node.watch->take(*newest, now);
        }
        node.watch->end_pass(now);
        node.opens += std::ssize(wanted);
        node.most_opens = std::max(node.most_opens, static_cast<std::int64_t>(wanted.size()));
    }

    WatchTimes times_;
    std::mt19937 random_;
    std::vector<Node> nodes_;
    std::vector<std::deque<Written>> files_;
    std::int64_t now_ = 0;
};

/// The nodes that are monitors at first.
std::vector<int> first_monitors(int nodes) {
    if (nodes <= 3) return nodes == 2 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2};
    return {0, nodes / 3, 2 * nodes / 3};
}

}  // namespace

TEST_CASE("all nodes know of a hang in time, one reports, and few files are opened") {
    for (const int nodes : {2, 3, 100, 2048}) {
        CAPTURE(nodes);
        Cluster cluster(nodes, 1);
        cluster.run_until(minute.limit - minute.silent - 4 * second);
        CHECK(cluster.opens() == 0);
        cluster.run_until(120 * second);
        CHECK(cluster.first_to_know() >= minute.hang);
        CHECK(cluster.first_to_know() < minute.limit + 2 * second);
        CHECK(cluster.last_to_know() < minute.limit + 3 * second);
        CHECK(cluster.reporters() == std::vector<int>{0});
        for (int i = 1; i < nodes; ++i) {
            const auto monitors = first_monitors(nodes);
            const bool monitor = std::count(monitors.begin(), monitors.end(), i) > 0;
            REQUIRE(cluster[i].most_opens == (monitor ? nodes - 1 : 3));
        }
        // 14 to 16 passes in the time before, and at most 2 until all know.
        CHECK(cluster.opens() < 18 * 6 * nodes);
    }
}

TEST_CASE("a node that moves anywhere keeps all others alive") {
    for (const int nodes : {2, 3, 100}) {
        for (unsigned seed = 0; seed < 30; ++seed) {
            CAPTURE(nodes, seed);
            Cluster cluster(nodes, seed);
            cluster.most_delay = seed % 3 * 2 * second;
            // Moves just often enough, given that news are late.
            const int mover = static_cast<int>(cluster.below(nodes));
            cluster.move_periods[mover] = minute.hang - 2 * second;
            // Many are lost, among them those around it and the first monitors.
            for (int i = 0; i < nodes; ++i) {
                const bool near = nodes == 100 && (i < 3 || std::abs(i - mover) < 10);
                if (near || cluster.below(3) == 0) cluster[i].lost_at = cluster.below(200) * second;
            }
            if (nodes > 3)
                for (const int monitor : first_monitors(nodes))
                    cluster[monitor].lost_at = seed % 2 * 100 * second;
            cluster[mover].lost_at = never;
            cluster.run_until(400 * second);
            REQUIRE_FALSE(cluster.any_knows());
            // Then it stops.
            cluster.move_periods.clear();
            const std::int64_t moved = cluster[mover].moved;
            cluster.run_until(600 * second);
            CHECK(cluster.first_to_know() >= moved + minute.hang);
            CHECK(cluster.last_to_know() < moved + minute.limit + 40 * second);
        }
    }
}

TEST_CASE("nodes wait for one that moves, most of the time without a read") {
    Cluster cluster(500, 7);
    cluster.move_periods[123] = 50 * second;
    cluster.run_until(300 * second);
    CHECK_FALSE(cluster.any_knows());
    // About every 50 s all nodes read for a few seconds.
    CHECK(cluster.opens() < 6 * 8 * 6 * cluster.size());
}

TEST_CASE("lost nodes are known to be lost when a hang is declared") {
    for (const int nodes : {2, 3, 100}) {
        for (const std::int64_t lost_at : {std::int64_t{1}, 30 * second, 50 * second}) {
            CAPTURE(nodes, lost_at);
            Cluster cluster(nodes, 3);
            cluster[0].lost_at = lost_at;
            cluster.run_until(120 * second);
            const int reporter = first_monitors(nodes)[1];
            CHECK(cluster.reporters() == std::vector<int>{reporter});
            Node& node = cluster[reporter];
            const std::int64_t then = node.hang_at + node.clock;
            for (int i = 0; i < nodes; ++i)
                REQUIRE(node.watch->is_alive(i, then) == (i != 0));
            CHECK(cluster.last_to_know() < minute.limit + 3 * second + minute.silent);
            if (lost_at < 45 * second) CHECK(cluster.last_to_know() < minute.limit + 3 * second);
        }
    }
}

TEST_CASE("each time that all monitors are lost delays the end of a hang by their silence") {
    for (const int nodes : {4, 100, 2048}) {
        for (const int times : {1, 2, 3}) {
            if (times * 3 >= nodes || (nodes == 2048 && times != 2)) continue;
            CAPTURE(nodes, times);
            Cluster cluster(nodes, 5);
            for (const int monitor : first_monitors(nodes))
                for (int i = 0; i < times; ++i)
                    cluster[monitor + i].lost_at = 20 * second;
            cluster.run_until(200 * second);
            CHECK(cluster.all_know());
            CHECK(cluster.last_to_know() <
                  minute.limit + 3 * second + times * (minute.silent + 2 * second));
            CHECK(cluster.reporters().size() == 1);
        }
    }
}

TEST_CASE("old news of lost nodes do not count as moves") {
    // The last thing that node 1 wrote was that it moves.
    Cluster cluster(3, 9);
    cluster.move_periods[1] = 250;
    cluster[1].lost_at = 10 * second;
    cluster.run_until(120 * second);
    CHECK(cluster.first_to_know() >= minute.hang);
    CHECK(cluster.last_to_know() < minute.limit + 3 * second);
}

TEST_CASE("two nodes end a short hang as soon as the other one counts as silent") {
    constexpr WatchTimes times = {.hang = 3000, .limit = 5000, .silent = 4000};
    for (unsigned seed = 0; seed < 200; ++seed) {
        CAPTURE(seed);
        Cluster cluster(2, seed, times);
        cluster.move_periods = {{0, 200}, {1, 200}};
        const std::int64_t lost_at = 20 * second + cluster.below(2 * second);
        cluster[1].lost_at = lost_at;
        cluster.run_until(lost_at);
        cluster.move_periods.clear();
        cluster.run_until(60 * second);
        CHECK(cluster[0].hang_at >= cluster[0].moved + times.limit);
        CHECK(cluster[0].hang_at < lost_at + times.limit + 2 * second);
        CHECK_FALSE(cluster[0].watch->is_alive(1, cluster[0].hang_at + cluster[0].clock));
        CHECK(cluster.reporters() == std::vector<int>{0});
    }
}

TEST_CASE("nodes that have learned a short limit end soon after it") {
    for (const int nodes : {2, 3, 100}) {
        for (unsigned seed = 0; seed < 30; ++seed) {
            CAPTURE(nodes, seed);
            Cluster cluster(nodes, seed);
            cluster.hang = 5 * second;
            for (int i = 0; i < nodes; ++i)
                cluster.move_periods[i] = second + cluster.below(second / 2);
            const std::int64_t end = 20 * second + cluster.below(2 * second);
            cluster.run_until(end);
            REQUIRE_FALSE(cluster.any_knows());
            // Silences of ordinary length cost no read.
            CHECK(cluster.opens() == 0);
            cluster.move_periods.clear();
            cluster.run_until(60 * second);
            CHECK(cluster.first_to_know() >= end + 3 * second);
            CHECK(cluster.last_to_know() < end + 7 * second);
            CHECK(cluster.reporters().size() == 1);
        }
    }
}

TEST_CASE("one node that has learned nothing keeps all others alive") {
    for (unsigned seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        Cluster cluster(20, seed);
        cluster.hang = 5 * second;
        const int patient = static_cast<int>(cluster.below(20));
        cluster[patient].hang = minute.hang;
        cluster.run_until(58 * second);
        REQUIRE_FALSE(cluster.any_knows());
        cluster.run_until(90 * second);
        CHECK(cluster.all_know());
        CHECK(cluster.last_to_know() < minute.limit + 4 * second);
    }
}

TEST_CASE("a node that looks lost leaves the others half a minute") {
    for (unsigned seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        Cluster cluster(20, seed);
        cluster.hang = 5 * second;
        for (int i = 0; i < 20; ++i)
            cluster.move_periods[i] = second;
        const int lost = static_cast<int>(cluster.below(20));
        cluster[lost].lost_at = 10 * second;
        cluster.run_until(10 * second);
        cluster.move_periods.clear();
        cluster.run_until(100 * second);
        CHECK(cluster.first_to_know() >= 38 * second);
        CHECK(cluster.last_to_know() < 50 * second);
    }
}

TEST_CASE("a node decides alone only if it can read no news") {
    Cluster cluster(100, 11);
    cluster.run_until(58 * second);
    const auto alone = [&](int i) {
        Node& node = cluster[i];
        const std::int64_t later = 75 * second + node.clock;
        return node.watch->must_decide_alone(later, node.moved + node.clock);
    };
    // It last read news 17 s before.
    CHECK(alone(5));
    CHECK_FALSE(cluster[5].watch->must_decide_alone(62 * second + cluster[5].clock,
                                                    cluster[5].moved + cluster[5].clock));
    // Nothing has moved on it for a long time, but elsewhere something has.
    cluster.move_periods[7] = second;
    cluster.run_until(62 * second);
    CHECK_FALSE(alone(5));
}

}  // namespace gptrain::test
