#include "serve/http.h"

#include <algorithm>

#include "base/json.h"

namespace gptrain {

bool same_without_case(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](char x, char y) { return lower(x) == lower(y); });
}

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
