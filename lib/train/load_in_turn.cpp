#include "train/load_in_turn.h"

#include <utility>

#include "checkpoint/load.h"
#include "checkpoint/manifest_part.h"

namespace gptrain {
namespace {

NamedState named(const StateInTurn& state) {
    return {state.group, state.shard, state.values};
}

void take_over(const StateInTurn& state) {
    if (state.taken_over) state.taken_over();
}

void load_checkpoint(RestartPoint& checkpoint, Backend& backend,
                     std::span<const StateInTurn> states,
                     const std::function<void()>& check_candidate) {
    const StateSource all = [&](const StateVisitor& visit) {
        for (const StateInTurn& state : states)
            visit(named(state));
    };
    const auto fill = [&](const std::filesystem::path& folder, const Manifest& part) {
        const ManifestParts parts(part);
        for (const StateInTurn& state : states) {
            const StateSource one = [&](const StateVisitor& visit) { visit(named(state)); };
            ShardRecords records = parts.part_for(needs_of(one));
            load_state(folder, {{}, std::move(records.files), std::move(records.tensors)}, backend,
                       one);
            take_over(state);
        }
    };
    checkpoint.load(all, fill, check_candidate);
}

}  // namespace

void load_in_turn(ModelSource& source, Backend& backend, const MpiSession& ranks,
                  std::span<const StateInTurn> states,
                  const std::function<void()>& check_candidate) {
    const HfFolder* folder = source.hf();
    if (folder == nullptr)
        return load_checkpoint(source.checkpoint(), backend, states, check_candidate);
    ranks.run_on_all([&] {
        for (const StateInTurn& state : states) {
            read_weights(*folder, backend, named(state));
            take_over(state);
        }
    });
}

}  // namespace gptrain
