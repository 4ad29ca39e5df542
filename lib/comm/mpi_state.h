// State that a session shares with its communicators. Private to this room.
#pragma once

#include "comm/mpi_call.h"
#include "comm/mpi_operation.h"
#include "comm/mpi_session.h"

namespace gptrain {

struct MpiSession::State {
    MpiHandle world;
    MpiProgress progress;
};

}  // namespace gptrain
