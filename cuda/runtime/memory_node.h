// The part of a machine's memory that is near a GPU (NUMA). No library: files of /sys and two
// system calls.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

namespace gptrain::cuda {

/// The NUMA node of a PCI device ("0000:3B:00.0"), empty if the machine has one node or does not
/// say. Reads /sys below `root`.
std::optional<int> memory_node(std::string_view pci_device,
                               const std::filesystem::path& root = "/");

/// While this lives, the thread's new pages come from the node, or from others if it is full.
/// Without a node, or where the process may not choose (containers), nothing changes. Throws Error
/// (io) if the system fails otherwise.
class PreferredMemoryNode {
public:
    explicit PreferredMemoryNode(std::optional<int> node);
    ~PreferredMemoryNode();
    PreferredMemoryNode(const PreferredMemoryNode&) = delete;
    PreferredMemoryNode& operator=(const PreferredMemoryNode&) = delete;

private:
    static constexpr std::size_t most_nodes = 1024;  // as Linux can have
    static constexpr std::size_t word_bits = 8 * sizeof(unsigned long);
    using NodeMask = std::array<unsigned long, most_nodes / word_bits>;

    bool changed_ = false;
    int mode_ = 0;  ///< before
    NodeMask nodes_{};
};

}  // namespace gptrain::cuda
