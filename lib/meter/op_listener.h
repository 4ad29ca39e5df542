// Callbacks for the ops and the copies beside computation that the meter sees.
#pragma once

#include <cstdint>

#include "hardware/op_time.h"

namespace gptrain {

/// Copies in one direction between the device and host memory (Backend::fetch, store).
struct HostCopies {
    enum class Direction { fetch, store };
    Direction direction;
    std::int64_t number = 0;  ///< counts those of the direction from 1
    std::int64_t bytes = 0;
};

class OpListener {
public:
    virtual ~OpListener() = default;
    virtual void on_op(const OpWork& op) = 0;
    virtual void on_started(const HostCopies& /*copies*/) {}
    virtual void on_joined(HostCopies::Direction /*direction*/, std::int64_t /*number*/) {}
};

}  // namespace gptrain
