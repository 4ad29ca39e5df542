#include "serve/http.h"

#include "base/json.h"

namespace gptrain {

HttpReply http_error(int status, std::string_view message) {
    // It may quote what the client sent.
    message = message.substr(0, 1000);
    const char* type = status < 500 ? "invalid_request_error" : "server_error";
    return {.status = status,
            .body = to_line(
                {{"error",
                  {{"message", message}, {"type", type}, {"param", nullptr}, {"code", status}}}})};
}

}  // namespace gptrain
