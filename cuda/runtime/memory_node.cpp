#include "cuda/runtime/memory_node.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <linux/mempolicy.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace gptrain::cuda {
namespace {

std::string line_of(const std::filesystem::path& file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
}

/// A kernel without NUMA, a container that may not choose, or may not use the node.
bool is_expected(int error) {
    return error == ENOSYS || error == EPERM || error == EINVAL;
}

}  // namespace

std::optional<int> memory_node(std::string_view pci_device, const std::filesystem::path& root) {
    // "0", or "0-1" with several.
    const std::string nodes = line_of(root / "sys/devices/system/node/online");
    if (nodes.find_first_of("-,") == std::string::npos) return {};
    std::string device(pci_device);
    std::transform(device.begin(), device.end(), device.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto node = parse_int(line_of(root / "sys/bus/pci/devices" / device / "numa_node"));
    if (!node || *node < 0) return {};
    return static_cast<int>(*node);
}

PreferredMemoryNode::PreferredMemoryNode(std::optional<int> node) {
    if (!node || std::cmp_greater_equal(*node, most_nodes)) return;
    const auto failed = [&](const char* call) {
        if (!is_expected(errno)) fail(ExitCode::io, call, ": ", std::strerror(errno));
    };
    if (syscall(SYS_get_mempolicy, &mode_, nodes_.data(), most_nodes, nullptr, 0) != 0) {
        failed("get_mempolicy");
        return;
    }
    NodeMask wanted{};
    const auto bit = static_cast<std::size_t>(*node);
    wanted[bit / word_bits] = 1UL << bit % word_bits;
    if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, wanted.data(), most_nodes) != 0) {
        failed("set_mempolicy");
        return;
    }
    changed_ = true;
}

PreferredMemoryNode::~PreferredMemoryNode() {
    if (changed_) syscall(SYS_set_mempolicy, mode_, nodes_.data(), most_nodes);
}

}  // namespace gptrain::cuda
