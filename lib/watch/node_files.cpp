#include "watch/node_files.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/text.h"

namespace gptrain {

std::filesystem::path NodeFiles::file_of(int node) const {
    return folder_ / text("node-", nodes_[static_cast<std::size_t>(node)]);
}

void NodeFiles::write(NodeNews news, std::span<const RankEntry> ranks) {
    news.launch = launch_;
    news.ranks = std::ssize(ranks);
    std::vector<std::byte> bytes(sizeof news + ranks.size_bytes());
    std::memcpy(bytes.data(), &news, sizeof news);
    std::memcpy(bytes.data() + sizeof news, ranks.data(), ranks.size_bytes());
    File file(file_of(static_cast<int>(news.node)), File::Mode::update);
    file.write_at(0, bytes);
    file.close();
    bytes_ += std::ssize(bytes);
}

/// Returns nothing for files of other launches.
std::vector<std::vector<std::byte>> NodeFiles::read(std::span<const int> nodes, std::size_t most,
                                                    const ReadLimits& limits) {
    std::vector<std::filesystem::path> paths;
    for (const int node : nodes)
        paths.push_back(file_of(node));
    std::vector<std::vector<std::byte>> all = read_files(paths, most, limits);
    for (std::size_t i = 0; i < all.size(); ++i) {
        bytes_ += std::ssize(all[i]);
        const bool whole = all[i].size() >= sizeof(NodeNews);
        const NodeNews news = whole ? value_at<NodeNews>(all[i], 0) : NodeNews{};
        if (!whole || news.launch != launch_ || news.node != nodes[i]) all[i].clear();
    }
    return all;
}

std::vector<NodeNews> NodeFiles::read_news(std::span<const int> nodes) {
    std::vector<NodeNews> found;
    for (const auto& bytes : read(nodes, sizeof(NodeNews), {}))
        if (!bytes.empty()) found.push_back(value_at<NodeNews>(bytes, 0));
    return found;
}

std::vector<RankEntry> NodeFiles::read_ranks(std::span<const int> nodes, int most_ranks_per_node,
                                             std::chrono::milliseconds longest) {
    std::vector<RankEntry> found;
    const std::size_t most =
        sizeof(NodeNews) + static_cast<std::size_t>(most_ranks_per_node) * sizeof(RankEntry);
    for (const auto& bytes : read(nodes, most, {.patience = longest, .all = longest})) {
        if (bytes.empty()) continue;
        // Entries of an earlier launch may follow its own.
        const auto there =
            static_cast<std::int64_t>((bytes.size() - sizeof(NodeNews)) / sizeof(RankEntry));
        const std::int64_t ranks = std::min(value_at<NodeNews>(bytes, 0).ranks, there);
        constexpr auto header_bytes = static_cast<std::int64_t>(sizeof(NodeNews));
        constexpr auto entry_bytes = static_cast<std::int64_t>(sizeof(RankEntry));
        for (std::int64_t i = 0; i < ranks; ++i)
            found.push_back(value_at<RankEntry>(bytes, header_bytes + i * entry_bytes));
    }
    return found;
}

void NodeFiles::remove(int node) const {
    ::unlink(file_of(node).c_str());
}

}  // namespace gptrain
