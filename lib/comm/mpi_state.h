// What a session shares with its communicators. Seen by the sources of this room only.
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
