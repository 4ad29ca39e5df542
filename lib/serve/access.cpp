#include "serve/access.h"

#include <algorithm>
#include <span>

#include "serve/listening_socket.h"

namespace gptrain {
namespace {

constexpr std::string_view get_paths[] = {"/", "/health", "/metrics", models_path,
                                          "/tokenizer_info"};
constexpr std::string_view post_paths[] = {"/v1/completions", "/v1/chat/completions", "/tokenize",
                                           "/detokenize"};

bool has(std::span<const std::string_view> paths, std::string_view path) {
    return std::find(paths.begin(), paths.end(), path) != paths.end();
}

bool is_public(std::string_view path) {
    return path == "/" || path == "/health";
}

/// In a time that does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b) {
    unsigned difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference |= static_cast<unsigned>(a[i] ^ (i < b.size() ? b[i] : 0));
    return difference == 0;
}

/// True for "Bearer TOKEN".
bool has_token(std::string_view authorization, std::string_view token) {
    constexpr std::string_view scheme = "Bearer ";
    if (!same_without_case(authorization.substr(0, scheme.size()), scheme)) return false;
    authorization.remove_prefix(
        std::min(authorization.find_first_not_of(' ', scheme.size()), authorization.size()));
    return same_secret(authorization, token);
}

/// True for names of this machine itself, with or without a port.
bool names_loopback(std::string_view host) {
    if (host.empty()) return true;
    const bool bracketed = host.front() == '[';
    const std::size_t end = bracketed ? host.find(']') : host.find(':');
    std::string_view name = host.substr(0, end);
    if (bracketed) name.remove_prefix(1);
    return same_without_case(name, "localhost") || is_loopback(std::string(name));
}

/// True for a page of the server itself; a proxy may have added TLS.
bool is_own_page(std::string_view origin, const std::string& host) {
    return same_without_case(origin, "http://" + host) ||
           same_without_case(origin, "https://" + host);
}

}  // namespace

std::optional<std::string_view> model_in(std::string_view path) {
    if (!path.starts_with(models_path)) return std::nullopt;
    path.remove_prefix(models_path.size());
    if (path.size() < 2 || path.front() != '/') return std::nullopt;
    return path.substr(1);
}

std::optional<HttpReply> refusal_of(const HttpRequest& request, const AccessRules& rules) {
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
    if (std::any_of(request.path.begin(), request.path.end(), is_control))
        return http_error(400, "the path has a control character");
    // Without these two checks any web page that the user visits could talk to the model.
    if (rules.loopback && rules.token.empty() && !names_loopback(request.host))
        return http_error(403, "the Host header must name this machine, such as localhost");
    if (!request.origin.empty() && !is_own_page(request.origin, request.host))
        return http_error(403, "requests from web pages of other origins are refused");
    const bool is_get = has(get_paths, request.path) || model_in(request.path);
    if (!is_get && !has(post_paths, request.path)) return http_error(404, "there is no such path");
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (is_get ? !reads : request.method != "POST") {
        HttpReply reply = http_error(405, "the path does not have this method");
        reply.headers = {{"Allow", is_get ? "GET, HEAD" : "POST"}};
        return reply;
    }
    if (rules.token.empty() || is_public(request.path)) return std::nullopt;
    if (has_token(request.authorization, rules.token)) return std::nullopt;
    return http_error(401, "send the server's token: 'Authorization: Bearer TOKEN'");
}

}  // namespace gptrain
