// gptrain serve: a trained model that answers over HTTP (docs/serve.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "infer/inference.h"
#include "serve/http_server.h"

namespace gptrain {

struct ServeOptions {
    std::string host = "127.0.0.1";
    std::int64_t port = 8000;
    std::string name;           ///< of the model; empty: that of the run
    std::string token;          ///< that clients must send; empty: none
    std::string chat_template;  ///< as in ChatOptions; empty: the model's own, if it has one
    std::int64_t answers = 16;  ///< written at a time
    std::int64_t context = 0;   ///< tokens of a prompt and its answer
    std::int64_t waiting = 1024;
    std::chrono::seconds max_time{600};  ///< for an answer
    HttpLimits http;
};

/// Connections for all answers that may be under way, and some for other requests: with fewer, a
/// full server could not even say that it is full.
std::int64_t needed_connections(const ServeOptions& options);

/// Serves until SIGINT or SIGTERM; then finishes the answers that have begun. All ranks call it
/// together; rank 0 listens. Error (usage) if the mesh, the memory, the template or the address
/// does not allow it.
void serve(const InferenceRun& run, const ServeOptions& options);

}  // namespace gptrain
