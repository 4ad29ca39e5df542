// The communication of one rank of a mesh from its start on, recorded over the meter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/mesh.h"

namespace gptrain::test {

/// One operation of a communicator.
struct CommOperation {
    std::string_view name;  ///< "all_reduce", "send", ...: static text
    DType dtype = DType::u8;
    std::int64_t elements = 0;  ///< of the larger tensor
    std::int64_t detail = 0;    ///< how to reduce, the dim, the root, or the receiver
    bool operator==(const CommOperation&) const = default;
};
std::string to_text(const CommOperation& operation);

/// Operations and waits in the order in which the rank issues them. Communicators are numbered in
/// the order in which the mesh makes them, the same on all ranks; those of one rank record nothing.
struct CommList {
    struct Event {
        std::int32_t communicator;
        std::int32_t number;  ///< counts its operations from 0
        bool waits;           ///< otherwise it is issued
        bool operator==(const Event&) const = default;
    };
    std::vector<Event> events;
    std::vector<std::vector<CommOperation>> operations;  ///< of each communicator
    bool operator==(const CommList&) const = default;
};

/// Makes communicators that transfer nothing, and records their operations in `list` and their
/// groups in `groups`. Both must outlive them.
CommunicatorFactory recording(CommList& list, std::vector<RankGroup>& groups);

}  // namespace gptrain::test
