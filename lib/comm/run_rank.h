// How a rank of a program ends.
#pragma once

#include <functional>
#include <string_view>

#include "base/error.h"
#include "comm/mpi_session.h"

namespace gptrain {

/// Runs `work` as one of the session's ranks; only rank 0 prints to stdout. Rank 0 reports an Error
/// that all ranks throw together (CommonError). A rank that fails alone reports its Error and ends
/// all others with its exit code. Without a launcher, Errors propagate unchanged. `program` begins
/// the error lines.
ExitCode run_rank(const MpiSession& ranks, std::string_view program,
                  const std::function<ExitCode()>& work);

}  // namespace gptrain
