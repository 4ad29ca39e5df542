#include "planner/step_clock.h"

#include <algorithm>
#include <limits>

#include "base/at.h"
#include "hardware/op_time.h"

namespace gptrain {
namespace {

/// The share of an op's speed that a message takes.
double share_taken(StageClock& stage, const DeviceProfile& device, std::int64_t op,
                   const Transfer& transfer) {
    if (transfer.blocks == 0) return transfer.slowdown;
    const auto [found, is_new] = stage.crowded.try_emplace({op, transfer.blocks});
    if (is_new) {
        const OpWork& work = at(stage.trace->ops, op);
        found->second = 1 - 1 / crowding(device, work, transfer.blocks);
    }
    return found->second;
}

}  // namespace

void takes_speed(StageClock& stage, const IssuedMessage& message) {
    const PricedMessage& price = message.price;
    if (price.blocks == 0 && (price.slowdown == 0 || !message.met)) return;
    constexpr double unknown = std::numeric_limits<double>::infinity();
    const Transfer transfer = {.message = message.number,
                               .posted = price.blocks == 0 ? message.begin : message.start,
                               .begin = message.met ? message.begin : unknown,
                               .end = message.met ? message.end : unknown,
                               .slowdown = price.slowdown,
                               .blocks = price.blocks};
    const auto before = std::ranges::find(stage.transfers, message.number, &Transfer::message);
    if (before == stage.transfers.end()) {
        stage.transfers.push_back(transfer);
    } else {
        *before = transfer;
    }
}

double delay_by_messages(StageClock& stage, const DeviceProfile& device, std::int64_t op,
                         double seconds) {
    const double now = stage.device;
    std::erase_if(stage.transfers, [&](const Transfer& transfer) { return transfer.end <= now; });
    const Spent spent = at(stage.prices.ops, op).spent;
    const bool needs_memory = spent == Spent::other || spent == Spent::optimizer;
    double delay = 0;
    for (const Transfer& transfer : stage.transfers) {
        const double begin = std::max(now, needs_memory ? transfer.begin : transfer.posted);
        const double rest = seconds - (begin - now);  // of the op
        if (rest <= 0) continue;
        const double taken = share_taken(stage, device, op, transfer);
        const double both = std::min(transfer.end - begin, rest / (1 - taken));
        delay += taken * both;
    }
    return delay;
}

}  // namespace gptrain
