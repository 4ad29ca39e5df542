// How likely a model finds the tokens of texts. Runs and evaluations share it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/mpi_session.h"
#include "engine/forward_passes.h"
#include "tasks/score_request.h"

namespace gptrain {

/// The scores of each request's scored tokens, in order, on rank 0; empty on the others. All ranks
/// call it with the same requests, in batches as by for_each_batch, with its errors. After each
/// batch all ranks call `go_on` with the requests done; if it returns false, the same on all, the
/// result is empty everywhere. A rank may score up to 2^26 tokens.
std::vector<TokenScores> score_requests(const ForwardPasses& passes, const MpiSession& ranks,
                                        std::span<const ScoreRequest> requests,
                                        ActionListener& listener,
                                        const std::function<bool(std::int64_t)>& go_on);

}  // namespace gptrain
