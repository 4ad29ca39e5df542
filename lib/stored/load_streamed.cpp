#include "stored/load_streamed.h"

#include <optional>
#include <utility>

#include "checkpoint/load.h"
#include "checkpoint/manifest_part.h"

namespace gptrain {
namespace {

NamedState named(const StreamedState& state) {
    return {state.group, state.shard, state.values};
}

void notify(const StreamedState& state) {
    if (state.on_filled) state.on_filled();
}

void load_checkpoint(RestartPoint& checkpoint, Backend& backend,
                     std::span<const StreamedState> states,
                     const std::function<void()>& check_candidate) {
    const StateSource all = [&](const StateVisitor& visit) {
        for (const StreamedState& state : states)
            visit(named(state));
    };
    const auto fill = [&](const std::filesystem::path& folder, const Manifest& part) {
        const ManifestParts parts(part);
        for (const StreamedState& state : states) {
            const StateSource one = [&](const StateVisitor& visit) { visit(named(state)); };
            ShardRecords records = parts.part_for(needs_of(one));
            load_state(folder, {{}, std::move(records.files), std::move(records.tensors)}, backend,
                       one);
            notify(state);
        }
    };
    checkpoint.load(all, fill, check_candidate);
}

}  // namespace

void load_streamed(ModelSource& source, Backend& backend, const MpiSession& ranks,
                   std::span<const StreamedState> states,
                   const std::function<void()>& check_candidate) {
    if (source.is_checkpoint())
        return load_checkpoint(source.checkpoint(), backend, states, check_candidate);
    const WeightReader weights = [&](const Shard& part, std::span<float> to) {
        source.hf() != nullptr ? source.hf()->read(part, to) : source.peft()->read(part, to);
    };
    ranks.run_on_all([&] {
        for (const StreamedState& state : states) {
            const bool takes_stored = state.on_stored && source.hf() != nullptr;
            const auto stored =
                takes_stored ? source.hf()->nf4_matrix(state.shard) : std::optional<Nf4View>();
            if (stored) {
                state.on_stored(*stored);
                continue;
            }
            read_weights(weights, backend, named(state));
            notify(state);
        }
    });
}

}  // namespace gptrain
