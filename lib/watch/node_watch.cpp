#include "watch/node_watch.h"

#include <algorithm>

namespace gptrain {
namespace {

constexpr int monitor_count = 3;
/// Passes must begin early enough to see that a node is silent.
constexpr std::int64_t time_to_see = 3000;
/// A node that looks lost ends a run no earlier than this: file systems stall for seconds.
constexpr std::int64_t lost_limit = 30'000;

}  // namespace

WatchTimes watch_times(std::int64_t hang_ms, bool several_nodes) {
    // News of other nodes are late: by up to a second where they are written and read once a
    // second.
    const std::int64_t least = several_nodes ? 2500 : 1000;
    const std::int64_t silent = std::clamp<std::int64_t>(hang_ms / 2, least, 10'000);
    return {.hang = hang_ms, .limit = std::max(hang_ms, silent + 1000), .silent = silent};
}

WatchTimes NodeWatch::times() const {
    const std::int64_t own = findings_.own_hang;
    return own == 0 ? longest_ : watch_times(own, true);
}

bool NodeWatch::should_read(std::int64_t now, std::int64_t moved) const {
    const WatchTimes own = times();
    const std::int64_t still = now - std::max(moved, findings_.moved_ms.load());
    // Ranks at work are silent for a third of a learned limit at most.
    const std::int64_t near = std::max(own.limit - own.silent - time_to_see, own.limit / 3);
    return hang() != no_hang || still > near;
}

std::vector<int> NodeWatch::monitors() const {
    std::vector<int> found;
    const int count = std::min(monitor_count, nodes());
    for (int i = 0; i < count; ++i) {
        const std::int64_t first = std::int64_t{i} * nodes() / count;
        found.push_back(static_cast<int>((first + findings_.monitors) % nodes()));
    }
    std::sort(found.begin(), found.end());
    return found;
}

bool NodeWatch::is_monitor() const {
    const std::vector<int> all = monitors();
    return std::binary_search(all.begin(), all.end(), own_);
}

/// All nodes are presumed alive: only news that change in this series show more.
void NodeWatch::begin_series(std::int64_t now, std::int64_t monitors) {
    for (NodeSlot& node : nodes_) {
        node.seen_ms = now;
        node.changes = 0;
    }
    findings_.monitors = monitors;
}

std::vector<int> NodeWatch::begin_pass(std::int64_t now) {
    const std::int64_t last = std::max(findings_.pass_began, findings_.pass_ended);
    if (now - last > times().silent + findings_.pass_took) begin_series(now, 0);
    findings_.pass_began = now;
    std::vector<int> wanted = monitors();
    if (is_monitor()) {
        wanted.clear();
        for (int node = 0; node < nodes(); ++node)
            wanted.push_back(node);
    }
    std::erase(wanted, own_);
    return wanted;
}

void NodeWatch::take(const NodeNews& news, std::int64_t now) {
    findings_.read_ms = now;
    NodeSlot& node = slot(static_cast<int>(news.node));
    if (news.beat != node.beat) {
        node.beat = news.beat;
        node.ms_since_move = news.ms_since_move;
        node.hang = news.hang;
        node.seen_ms = now;
        ++node.changes;
    }
    // A monitor judges by what it reads itself.
    const bool believed = node.changes >= 2 && news.ms_since_move_elsewhere >= 0;
    if (believed && !is_monitor()) learn_of_move(now - news.ms_since_move_elsewhere);
    if (news.hangs != 0 && hang() == no_hang) findings_.hang = reports(now) ? to_report : declared;
}

void NodeWatch::end_pass(std::int64_t now) {
    for (const NodeSlot& node : nodes_)
        if (node.changes >= 2) learn_of_move(node.seen_ms - node.ms_since_move);
    findings_.pass_took = now - findings_.pass_began;
    findings_.pass_ended = now;
    const std::vector<int> all = monitors();
    const bool any = is_monitor() || std::any_of(all.begin(), all.end(),
                                                 [&](int node) { return is_alive(node, now); });
    if (!any) begin_series(now, (findings_.monitors + 1) % nodes());
}

void NodeWatch::learn_of_move(std::int64_t moved) {
    if (moved > findings_.moved_ms) findings_.moved_ms = moved;
}

bool NodeWatch::is_alive(int node, std::int64_t now) const {
    return node == own_ || now - slot(node).seen_ms < times().silent + findings_.pass_took;
}

/// A node that is alive reports itself when it has not moved for too long: to count from older news
/// would be wrong where newer ones are late. The first news seen of it may be old, because they are
/// not read all the time, so later ones must follow.
bool NodeWatch::moves(int node, std::int64_t now) const {
    const NodeSlot& news = slot(node);
    if (is_alive(node, now)) return news.changes < 2 || news.ms_since_move < news.hang;
    return news.changes >= 2 && news.ms_since_move + now - news.seen_ms < news.hang;
}

std::int64_t NodeWatch::limit(std::int64_t now) const {
    const std::int64_t own = times().limit;
    for (int node = 0; node < nodes(); ++node)
        if (!is_alive(node, now)) return std::max(own, std::min(longest_.limit, lost_limit));
    return own;
}

void NodeWatch::judge(std::int64_t now, std::int64_t moved) {
    if (hang() != no_hang || !is_monitor() || now - moved < limit(now)) return;
    // Whoever has not tried to read knows nothing.
    if (now - findings_.pass_ended > times().silent) return;
    for (int node = 0; node < nodes(); ++node)
        if (node != own_ && moves(node, now)) return;
    findings_.hang = reports(now) ? to_report : declared;
}

bool NodeWatch::reports(std::int64_t now) const {
    for (const int node : monitors()) {
        if (node == own_) return true;
        if (is_alive(node, now)) return false;
    }
    return false;
}

NodeNews NodeWatch::news(std::int64_t now, std::int64_t moved) const {
    NodeNews news;
    news.node = own_;
    news.beat = now;
    news.ms_since_move = now - moved;
    news.hang = times().hang;
    if (is_monitor() && findings_.moved_ms > 0)
        news.ms_since_move_elsewhere = now - findings_.moved_ms;
    news.hangs = hang() == no_hang ? 0 : 1;
    return news;
}

bool NodeWatch::must_decide_alone(std::int64_t now, std::int64_t moved) const {
    const std::int64_t still = now - std::max(moved, findings_.moved_ms.load());
    return still >= longest_.limit &&
           now - findings_.read_ms > longest_.silent + findings_.pass_took;
}

}  // namespace gptrain
