// The files through which nodes report to each other.
#include "watch/node_files.h"

#include <chrono>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain::test {
namespace {

constexpr std::chrono::milliseconds long_enough{20'000};
const std::vector<int> two_nodes = {0, 4};  // with four ranks each

/// The news and ranks of a node, at its n-th beat.
void write_node(NodeFiles& files, int node, std::int64_t beat, int ranks = 4) {
    NodeNews news;
    news.node = node;
    news.beat = beat;
    news.ms_since_move = 10 * beat;
    std::vector<RankEntry> entries;
    for (int i = 0; i < ranks; ++i) {
        RankEntry entry = {.rank = 4 * node + i, .ms_since_beat = i, .record = {}};
        entry.record.step = beat;
        entries.push_back(entry);
    }
    files.write(news, entries);
}

}  // namespace

TEST_CASE("nodes read each other's news and ranks") {
    const TempFolder folder;
    NodeFiles files(folder.path(), 77, two_nodes);
    const std::vector<int> other = {1};
    CHECK(files.read_news(other).empty());
    for (const std::int64_t beat : {1, 2}) {
        write_node(files, 0, 100);
        write_node(files, 1, beat);
        const auto news = files.read_news(other);
        REQUIRE(news.size() == 1);
        CHECK(news[0].node == 1);
        CHECK(news[0].beat == beat);
        CHECK(news[0].ms_since_move == 10 * beat);
        CHECK(news[0].ms_since_move_elsewhere == -1);
    }
    const std::vector<int> all = {0, 1};
    const auto ranks = files.read_ranks(all, 4, long_enough);
    REQUIRE(ranks.size() == 8);
    for (int rank = 0; rank < 8; ++rank) {
        CHECK(ranks[static_cast<std::size_t>(rank)].rank == rank);
        CHECK(ranks[static_cast<std::size_t>(rank)].ms_since_beat == rank % 4);
        CHECK(ranks[static_cast<std::size_t>(rank)].record.step == (rank < 4 ? 100 : 2));
    }
    files.remove(1);
    CHECK(files.read_news(all).size() == 1);
}

TEST_CASE("files of another launch, or of another node, are ignored") {
    const TempFolder folder;
    NodeFiles earlier(folder.path(), 76, two_nodes);
    NodeFiles files(folder.path(), 77, two_nodes);
    const std::vector<int> all = {0, 1};
    write_node(earlier, 0, 1);
    write_node(earlier, 1, 1);
    CHECK(files.read_news(all).empty());
    CHECK(files.read_ranks(all, 4, long_enough).empty());
    // Entries of the earlier launch still follow those of this one.
    write_node(files, 0, 2, 1);
    const auto ranks = files.read_ranks(all, 4, long_enough);
    REQUIRE(ranks.size() == 1);
    CHECK(ranks[0].record.step == 2);

    std::filesystem::copy_file(folder / "node-0", folder / "node-4",
                               std::filesystem::copy_options::overwrite_existing);
    CHECK(files.read_news(all).size() == 1);
}

TEST_CASE("a file that is cut short holds what is whole") {
    const TempFolder folder;
    NodeFiles files(folder.path(), 77, two_nodes);
    const std::vector<int> first = {0};
    write_node(files, 0, 1);
    std::filesystem::resize_file(folder / "node-0", sizeof(NodeNews) + 2 * sizeof(RankEntry) + 5);
    CHECK(files.read_ranks(first, 4, long_enough).size() == 2);
    std::filesystem::resize_file(folder / "node-0", sizeof(NodeNews) - 1);
    CHECK(files.read_ranks(first, 4, long_enough).empty());
    CHECK(files.read_news(first).empty());
}

TEST_CASE("a file that cannot be opened holds up its reader only, and not for long") {
    const TempFolder folder;
    std::vector<std::filesystem::path> paths;
    for (int i = 0; i < 100; ++i) {
        paths.push_back(folder / std::to_string(i));
        if (i != 40) fill(paths.back(), std::to_string(i));
    }
    // Opening a pipe to read waits for a writer.
    REQUIRE(::mkfifo(paths[40].c_str(), 0600) == 0);
    const auto start = std::chrono::steady_clock::now();
    const auto all = read_files(paths, 1, {.patience = std::chrono::milliseconds(300)});
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
    for (std::size_t i = 0; i < all.size(); ++i) {
        CAPTURE(i);
        REQUIRE(all[i].size() == (i == 40 ? 0 : 1));
        if (i != 40) CHECK(static_cast<char>(all[i][0]) == std::to_string(i)[0]);
    }
    const int writer = ::open(paths[40].c_str(), O_WRONLY);
    REQUIRE(writer >= 0);
    ::close(writer);
}

}  // namespace gptrain::test
