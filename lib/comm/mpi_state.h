// State that a session shares with its communicators. Private to this room.
#pragma once

#include "comm/mpi_call.h"
#include "comm/mpi_operation.h"

namespace gptrain {

struct MpiState {
    MpiHandle world;
    MpiProgress progress;
};

}  // namespace gptrain
