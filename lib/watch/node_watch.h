// How a stalled node finds out about other nodes, and how a hang is declared.
//
// Each node writes news of itself about once a second: its newest beat and how long its ranks have
// not moved. Nobody reads it while ranks move, here or elsewhere. When a hang is near, a few nodes,
// the monitors, read the news of all nodes, about once a second. All others read the monitors'
// news, which also contain when a rank last moved anywhere. So a pass takes 7 reads per node on
// average and at most 2 steps from any node to any other, however many nodes there are. The
// monitors lie far apart in the list of nodes, so that no rack has two of them.
//
// Only a monitor declares a hang, from its own reads, when every node reports no progress or has
// stopped writing. So no node in between can be lost, clocks may differ, and late news only cause
// delay. A node that reads of a hang adopts it. The live monitor with the lowest index reports it.
//
// If no monitor's news change, the next nodes in the list become monitors, as often as needed. Each
// time delays a hang's end by the time that makes a node count as silent, and 2 seconds.
//
// Times are milliseconds on the node's own clock (node_clock_ms).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace gptrain {

struct WatchTimes {
    std::int64_t hang = 0;    ///< without a move for this long, a rank hangs
    std::int64_t limit = 0;   ///< when to declare a hang: hang, or later if silence takes longer
    std::int64_t silent = 0;  ///< without a beat for this long, a rank or node is lost
};

/// The times that fit a hang after this long.
WatchTimes watch_times(std::int64_t hang_ms, bool several_nodes);

/// The news that a node writes to its file.
struct NodeNews {
    std::int64_t launch = 0;         ///< distinguishes launches that use the same folder
    std::int64_t node = 0;           ///< its index
    std::int64_t beat = 0;           ///< differs each time
    std::int64_t ms_since_move = 0;  ///< of the rank there that moved last
    /// The same for ranks of all other nodes; -1 if it knows of none, or is not a monitor.
    std::int64_t ms_since_move_elsewhere = -1;
    std::int64_t hang = 0;      ///< WatchTimes::hang of its ranks at present
    std::int64_t hangs = 0;     ///< 1 once a hang has been declared
    std::int64_t reported = 0;  ///< 1 once this node has reported it
    std::int64_t ranks = 0;     ///< how many entries of ranks follow
};

/// One node's view of another; all zeros at first.
struct NodeSlot {
    std::atomic<std::int64_t> beat;
    std::atomic<std::int64_t> seen_ms;        ///< when that beat was first seen
    std::atomic<std::int64_t> ms_since_move;  ///< as that beat said
    std::atomic<std::int64_t> hang;           ///< likewise
    std::atomic<std::int64_t> changes;        ///< of the beat in this series of passes
};

/// One node's view of all others together; all zeros at first.
struct NodeFindings {
    std::atomic<std::int64_t> own_hang;    ///< WatchTimes::hang of this node; 0: not known yet
    std::atomic<std::int64_t> monitors;    ///< which nodes are monitors now
    std::atomic<std::int64_t> pass_began;  ///< the latest
    std::atomic<std::int64_t> pass_ended;
    std::atomic<std::int64_t> pass_took;  ///< the latest complete one
    std::atomic<std::int64_t> read_ms;    ///< when any news could be read
    std::atomic<std::int64_t> moved_ms;   ///< when a rank elsewhere moved, as far as known
    std::atomic<std::int64_t> hang;       ///< 0, or one of NodeWatch::Hang
};

/// Works on memory that the processes of a node share. Each of them can do any pass. Pure: it
/// reads no clock and no file.
class NodeWatch {
public:
    enum Hang : std::int64_t { no_hang, declared, to_report };

    /// `own` is the index of this node in the list of nodes, for which there is one slot each.
    /// `longest`: the times of a node whose limit is not known yet, and of one that can read no
    /// news.
    NodeWatch(NodeFindings& findings, std::span<NodeSlot> nodes, int own, const WatchTimes& longest)
        : findings_(findings), nodes_(nodes), own_(own), longest_(longest) {}

    /// From now on the ranks of this node hang if nothing moves for `hang` ms.
    void set_hang(std::int64_t hang) { findings_.own_hang = hang; }
    WatchTimes times() const;

    /// True if a hang is near: news are written and read more often. `moved` is when a rank of this
    /// node last moved.
    bool should_read(std::int64_t now, std::int64_t moved) const;
    /// Begins a pass and returns the nodes whose news to read.
    std::vector<int> begin_pass(std::int64_t now);
    void take(const NodeNews& news, std::int64_t now);
    void end_pass(std::int64_t now);
    /// Declares a hang if this node is a monitor and finds one.
    void judge(std::int64_t now, std::int64_t moved);

    /// News of this node, without what only files need.
    NodeNews news(std::int64_t now, std::int64_t moved) const;

    Hang hang() const { return static_cast<Hang>(findings_.hang.load()); }
    /// True if nothing has moved on this node and, as far as known, elsewhere for the longest
    /// limit, and it cannot read any news: it must decide alone.
    bool must_decide_alone(std::int64_t now, std::int64_t moved) const;
    bool is_alive(int node, std::int64_t now) const;
    bool is_monitor() const;

private:
    void begin_series(std::int64_t now, std::int64_t monitors);
    std::vector<int> monitors() const;
    bool reports(std::int64_t now) const;
    bool moves(int node, std::int64_t now) const;
    void learn_of_move(std::int64_t moved);
    /// When to declare a hang, later if a node looks lost: its file may only be slow.
    std::int64_t limit(std::int64_t now) const;
    NodeSlot& slot(int node) const { return nodes_[static_cast<std::size_t>(node)]; }
    int nodes() const { return static_cast<int>(nodes_.size()); }

    NodeFindings& findings_;
    std::span<NodeSlot> nodes_;
    int own_;
    WatchTimes longest_;
};

}  // namespace gptrain
