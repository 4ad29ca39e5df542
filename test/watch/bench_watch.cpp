// Usage: bench_watch FOLDER RANKS...
// Measures, for each number of ranks (64 at least), what watching costs: a beat, a pass near a
// hang, and the report of one. All nodes' files are written by their writer, into a new folder in
// FOLDER. Prints one line of JSON each. Nodes have 8 ranks; the mesh is tp 8, pp 8, dp RANKS / 64.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "watch/hang_report.h"
#include "watch/heartbeats.h"
#include "watch/node_files.h"
#include "watch/node_watch.h"

namespace gptrain {
namespace {

constexpr int ranks_per_node = 8;
constexpr WatchTimes times = {.hang = 600'000, .limit = 600'000, .silent = 10'000};

struct Cost {
    double seconds = 0;
    std::int64_t bytes = 0;
    std::int64_t files = 0;
};

/// The nodes of a run and their files.
class Nodes {
public:
    Nodes(const std::filesystem::path& folder, int ranks)
        : mesh_{.data = ranks / 64, .pipeline = 8, .tensor = 8},
          nodes_(first_ranks(ranks)),
          files_(folder, 1, nodes_),
          slots_(ranks_per_node),
          node_slots_(nodes_.size()) {
        create_folders(folder);
        for (int node = 0; node < std::ssize(nodes_); ++node)
            write(node);
    }

    /// The check that each rank does four times a second, and the write that one rank of a node
    /// does once a second.
    Cost beat() {
        return measured([&] {
            std::int64_t moved = 0;
            for (const RankSlot& slot : slots_)
                moved = std::max(moved, slot.moved_ms());
            slots_[0].beat(node_clock_ms(), moved, times.hang);
            write(1);
            return 1;
        });
    }
    /// A pass of the node with that index. Node 0 is a monitor, node 1 of more than 3 is not.
    Cost pass(int node) {
        NodeWatch watch(findings_, node_slots_, node, times);
        return measured([&] {
            const std::vector<int> wanted = watch.begin_pass(node_clock_ms());
            for (const NodeNews& news : files_.read_news(wanted))
                watch.take(news, node_clock_ms());
            watch.end_pass(node_clock_ms());
            watch.judge(node_clock_ms(), 0);
            return std::ssize(wanted);
        });
    }
    Cost report() {
        return measured([&] {
            std::vector<int> all(nodes_.size());
            std::iota(all.begin(), all.end(), 0);
            std::vector<RankView> views(static_cast<std::size_t>(mesh_.size()));
            for (const RankEntry& entry :
                 files_.read_ranks(all, ranks_per_node, std::chrono::seconds(60)))
                views[static_cast<std::size_t>(entry.rank)] = {entry.record, entry.rank != 17};
            if (find_culprit(views, mesh_) != Culprit{17, HangCause::lost})
                fail(ExitCode::bug, "the wrong rank is blamed");
            hang_message(views, mesh_, "", {.seconds = 600, .hang_seconds = 600});
            hang_table(views);
            return std::ssize(all);
        });
    }
    std::int64_t nodes() const { return std::ssize(nodes_); }
    /// Memory that the ranks of a node share.
    std::int64_t shared_bytes() const {
        return static_cast<std::int64_t>(sizeof(NodeDuties) + slots_.size() * sizeof(RankSlot)) +
               mesh_.size() * std::int64_t{sizeof(NodeSlot)};
    }

private:
    static std::vector<int> first_ranks(int ranks) {
        std::vector<int> first;
        for (int rank = 0; rank < ranks; rank += ranks_per_node)
            first.push_back(rank);
        return first;
    }
    void write(int node) {
        NodeWatch watch(findings_, node_slots_, node, times);
        std::vector<RankEntry> entries;
        for (int i = 0; i < ranks_per_node; ++i) {
            RankEntry entry = {.rank = node * ranks_per_node + i,
                               .ms_since_beat = 0,
                               .record = slots_[static_cast<std::size_t>(i)].record()};
            entry.record.phase = ShortText<16>("step");
            entry.record.step = entry.rank % 100;
            entry.record.waiting = 1;
            entries.push_back(entry);
        }
        files_.write(watch.news(node_clock_ms(), 0), entries);
    }
    /// The best of some times: other work of the machine does not count.
    Cost measured(const std::function<std::int64_t()>& act) {
        Cost best = {.seconds = 1e9};
        for (int turn = 0; turn < 5; ++turn) {
            const std::int64_t bytes = files_.bytes();
            const auto start = std::chrono::steady_clock::now();
            const std::int64_t files = act();
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
            if (took.count() < best.seconds) best = {took.count(), files_.bytes() - bytes, files};
        }
        return best;
    }

    MeshShape mesh_;
    std::vector<int> nodes_;
    NodeFiles files_;
    std::vector<RankSlot> slots_;
    NodeFindings findings_{};
    std::vector<NodeSlot> node_slots_;
};

std::string to_json(const char* name, const Cost& cost) {
    return text(",\"", name, "_s\":", scientific(cost.seconds, 3), ",\"", name,
                "_bytes\":", cost.bytes, ",\"", name, "_files\":", cost.files);
}

void measure(const std::filesystem::path& folder, int ranks) {
    const std::filesystem::path own = folder / text("bench-watch-", ranks);
    {
        Nodes nodes(own, ranks);
        print("{\"bench\":\"watch\",\"ranks\":", ranks, ",\"nodes\":", nodes.nodes(),
              to_json("beat", nodes.beat()), to_json("pass", nodes.pass(1)),
              to_json("monitor_pass", nodes.pass(0)), to_json("report", nodes.report()),
              ",\"shared_bytes_per_node\":", nodes.shared_bytes(), "}");
    }
    std::filesystem::remove_all(own);
}

}  // namespace
}  // namespace gptrain

int main(int argc, char** argv) {
    gptrain::start_process("bench_watch");
    for (int i = 2; i < argc; ++i) {
        const auto ranks = gptrain::parse_int(argv[i]).value_or(0);
        if (ranks < 64 || ranks % 64 != 0 || ranks > 1'000'000) {
            gptrain::error_line("bench_watch",
                                "usage: bench_watch FOLDER RANKS... (multiples of 64)");
            return 2;
        }
        gptrain::measure(argv[1], static_cast<int>(ranks));
    }
    return 0;
}
