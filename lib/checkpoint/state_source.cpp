#include "checkpoint/state_source.h"

namespace gptrain {

std::vector<HeldState> held_state(const StateSource& source) {
    std::vector<HeldState> held;
    source([&](const NamedState& state) {
        const Shard& shard = state.shard;
        if (shard.elements() == 0) return;
        GPTRAIN_CHECK(is_stored(state.values.dtype()) && state.values.contiguous() &&
                          state.values.elements() == shard.elements() && shard.global.rank() > 0,
                      state.group, "/", shard.name);
        held.push_back({std::string(state.group), shard, state.values.view({shard.elements()})});
    });
    return held;
}

std::vector<HeldState> owned_state(const StateSource& source) {
    std::vector<HeldState> owned = held_state(source);
    std::erase_if(owned, [](const HeldState& state) { return !state.shard.owned; });
    return owned;
}

}  // namespace gptrain
