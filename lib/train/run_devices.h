// The devices, ranks and observers of a run.
#pragma once

#include <string>

#include "backend/backend.h"
#include "comm/mesh.h"
#include "comm/mpi_session.h"
#include "metrics/start_times.h"
#include "watch/observers.h"

namespace gptrain {

struct RunDevices {
    Backend& backend;
    const Mesh& mesh;
    const MpiSession& ranks;
    Observers& observers;
    std::string device_name;  ///< of a rank, for display
    StartTimes& start_times;
};

}  // namespace gptrain
