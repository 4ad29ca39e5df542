#include "engine/memory_check.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/process.h"

namespace gptrain {
namespace {

/// The node and its host name, then a line for each claim: its numbers, followed by the limit's
/// name.
std::string to_message(const RankClaims& claims) {
    std::string message = text(claims.node, " ", claims.host, "\n");
    for (const MemoryClaim& claim : claims.claims) {
        message += text(claim.limit.per_process ? 1 : 0, " ", claim.limit.available, " ",
                        claim.bytes, " ", claim.limit.name, "\n");
    }
    return message;
}

std::string_view take(std::string_view& rest, char end) {
    const std::size_t at = std::min(rest.find(end), rest.size());
    const std::string_view part = rest.substr(0, at);
    rest.remove_prefix(std::min(at + 1, rest.size()));
    return part;
}

std::int64_t take_number(std::string_view& rest) {
    return parse_int(take(rest, ' ')).value_or(0);
}

RankClaims from_message(std::string_view message) {
    RankClaims claims;
    claims.node = static_cast<int>(take_number(message));
    claims.host = take(message, '\n');
    while (!message.empty()) {
        MemoryClaim claim;
        claim.limit.per_process = take_number(message) != 0;
        claim.limit.available = take_number(message);
        claim.bytes = take_number(message);
        claim.limit.name = take(message, '\n');
        claims.claims.push_back(std::move(claim));
    }
    return claims;
}

}  // namespace

std::int64_t device_reserve(std::int64_t reserve, std::int64_t taken) {
    return std::max(reserve - taken, device_floor);
}

std::int64_t host_bytes(const MemoryPlan& plan, bool in_host_memory) {
    return host_reserve + (in_host_memory ? plan.total() : plan.total() - plan.on_device());
}

std::optional<MemoryShortage> find_shortage(std::span<const RankClaims> claims) {
    // Keyed by machine, limit, and rank if the limit is per process.
    std::map<std::tuple<int, std::string, std::size_t>, MemoryShortage> sums;
    for (std::size_t rank = 0; rank < claims.size(); ++rank) {
        const RankClaims& rank_claims = claims[rank];
        for (const auto& [limit, bytes] : rank_claims.claims) {
            const std::size_t sharer = limit.per_process ? rank + 1 : 0;
            const MemoryShortage none = {
                .limit = limit.name, .host = rank_claims.host, .available = limit.available};
            auto& sum =
                sums.try_emplace({rank_claims.node, limit.name, sharer}, none).first->second;
            sum.ranks += 1;
            sum.needed += bytes;
            sum.available = std::min(sum.available, limit.available);
        }
    }
    std::optional<MemoryShortage> worst;
    for (const auto& [key, sum] : sums) {
        const std::int64_t missing = sum.needed - sum.available;
        if (missing > (worst ? worst->needed - worst->available : 0)) worst = sum;
    }
    return worst;
}

MemoryCheck::MemoryCheck(const Backend& backend, const MpiSession& ranks)
    : ranks_(ranks), host_(host_memory_limits()), in_host_memory_(backend.is_host()) {
    const auto free = backend.free_bytes();
    if (!free) return;
    device_ = {.name = "free memory of the GPU", .available = *free, .per_process = true};
    device_reserve_ = device_reserve(backend.reserve_bytes(), backend.bytes_outside_arenas());
}

std::optional<MemoryShortage> MemoryCheck::find_shortage(const MemoryPlan& plan) const {
    RankClaims own = {.node = ranks_.node(), .host = host_name(), .claims = {}};
    for (const MemoryLimit& limit : host_)
        own.claims.push_back({.limit = limit, .bytes = host_bytes(plan, in_host_memory_)});
    if (device_)
        own.claims.push_back({.limit = *device_, .bytes = plan.on_device() + device_reserve_});
    std::vector<RankClaims> claims;
    for (const std::string& message : ranks_.exchange(to_message(own)))
        claims.push_back(from_message(message));
    return gptrain::find_shortage(claims);
}

void MemoryCheck::require(const MemoryPlan& plan,
                          const std::function<std::string()>& advice) const {
    const auto missing = find_shortage(plan);
    if (!missing) return;
    const bool device = device_ && missing->limit == device_->name;
    const std::int64_t reserve = device ? device_reserve_ : missing->ranks * host_reserve;
    const std::string where = ranks_.size() == 1
                                  ? ""
                                  : text(" on ", missing->host, " for ", missing->ranks,
                                         missing->ranks == 1 ? " of the ranks" : " ranks");
    throw CommonError(
        ExitCode::usage,
        text("not enough memory", where, ": ",
             needed_and_available(missing->needed, reserve, missing->available, missing->limit),
             "; ", advice()));
}

std::string needed_and_available(std::int64_t needed, std::int64_t reserve, std::int64_t available,
                                 std::string_view limit) {
    return text(human_bytes(needed), " needed (", human_bytes(reserve), " for libraries), ",
                human_bytes(available), " available (", limit, ")");
}

}  // namespace gptrain
