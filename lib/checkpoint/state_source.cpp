#include "checkpoint/state_source.h"

namespace gptrain {

std::vector<OwnedState> owned_state(const StateSource& source) {
    std::vector<OwnedState> owned;
    source([&](const NamedState& state) {
        const Shard& shard = state.shard;
        if (!shard.owned || shard.elements() == 0) return;
        GPTRAIN_CHECK(is_stored(state.values.dtype()) && state.values.contiguous() &&
                          state.values.elements() == shard.elements() && shard.global.rank() > 0,
                      state.group, "/", shard.name);
        owned.push_back({std::string(state.group), shard, state.values.view({shard.elements()})});
    });
    return owned;
}

}  // namespace gptrain
