// The paths of the server, and who may use them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace gptrain {

constexpr std::string_view models_path = "/v1/models";

/// The NAME of /v1/models/NAME.
std::optional<std::string_view> model_in(std::string_view path);

struct AccessRules {
    bool loopback;      ///< only this machine can reach the server
    std::string token;  ///< that clients must send; empty: none
};

/// The error for a request that is not worth reading: an unknown path, a client without the token,
/// a web page of another origin.
std::optional<HttpReply> refusal_of(const HttpRequest& request, const AccessRules& rules);

}  // namespace gptrain
