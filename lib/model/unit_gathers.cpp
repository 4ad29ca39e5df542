#include "model/unit_gathers.h"

#include <algorithm>
#include <memory>

namespace gptrain {
namespace {

FlatRange own_part(const Mesh& mesh, const WeightMessage& message) {
    const Communicator& owners = mesh[message.owners];
    return part_of_bucket(message.range, owners.rank(), owners.size());
}

/// The group that is gathered in FP8.
const ParameterGroup& group_of(const Parameters& parameters, const WeightMessage& message) {
    return *std::ranges::find(parameters.layout().groups, message.range.begin,
                              [](const ParameterGroup& group) { return group.storage.begin; });
}

Pending send_fp8(Backend& backend, const Mesh& mesh, const Parameters& parameters,
                 const WeightMessage& message) {
    const ParameterGroup& group = group_of(parameters, message);
    const FlatRange own = own_part(mesh, message);
    const std::int64_t elements = message.range.elements();
    // The rows are in the first half of the group's values, followed by padding.
    const Tensor rows = parameters.weights(message.range)
                            .reinterpret(DType::f8e4m3, {2 * elements})
                            .slice(0, 0, elements);
    const Tensor part = rows.slice(0, own.begin - message.range.begin, own.elements());
    backend.run(
        ToFp8{.x = parameters.owned_weights(own),
              .amax = parameters.amax(group),
              .out = {.rowwise = part, .columnwise = {}, .scale = parameters.fp8(group).scale}});
    return mesh[message.owners].all_gather(rows, part, 0);
}

/// A unit's messages, and its FP8 groups.
struct UnitGather {
    std::vector<WeightMessage> messages;
    std::vector<const ParameterGroup*> in_fp8;      ///< gathered so
    std::vector<const ParameterGroup*> in_compute;  ///< gathered in the compute dtype
};

std::vector<UnitGather> gathers_of_units(const Mesh& mesh, const Parameters& parameters) {
    const ParameterLayout& layout = parameters.layout();
    std::vector<UnitGather> units(parameters.placement().weight_windows.of_unit.size());
    for (const WeightMessage& message : weight_messages(layout, mesh))
        units[message.unit].messages.push_back(message);
    for (const std::vector<Bucket>* buckets : {&layout.buckets, &layout.frozen_buckets}) {
        for (const Bucket& bucket : *buckets) {
            for (const ParameterGroup& group : layout.groups) {
                const bool inside =
                    group.storage.begin >= bucket.begin && group.storage.begin < bucket.end;
                if (!inside || !group.storage.fp8) continue;
                UnitGather& unit = units[bucket.unit];
                (bucket.fp8 ? unit.in_fp8 : unit.in_compute).push_back(&group);
            }
        }
    }
    return units;
}

}  // namespace

Pending send_weights(Backend& backend, const Mesh& mesh, const Parameters& parameters,
                     const WeightMessage& message) {
    if (message.fp8) return send_fp8(backend, mesh, parameters, message);
    const Tensor all = parameters.weights(message.range);
    Communicator& owners = mesh[message.owners];
    if (!message.owner)
        return owners.all_gather(all, parameters.owned_weights(own_part(mesh, message)), 0);
    if (*message.owner == owners.rank()) {
        const Tensor own = parameters.owned_weights(message.range);
        if (own.data() != all.data()) backend.copy(all, own);
    }
    return owners.broadcast(all, *message.owner);
}

Parameters::Gather unit_gathers(Backend& backend, Memory& memory, const Mesh& mesh,
                                const Parameters& parameters) {
    const auto units =
        std::make_shared<const std::vector<UnitGather>>(gathers_of_units(mesh, parameters));
    const auto start = [&, units](std::size_t unit) {
        std::vector<Pending> pending;
        for (const WeightMessage& message : (*units)[unit].messages)
            pending.push_back(send_weights(backend, mesh, parameters, message));
        return pending;
    };
    const auto finish = [&, units](std::size_t unit) {
        for (const ParameterGroup* group : (*units)[unit].in_fp8) {
            const Fp8Matrix matrix = parameters.fp8(*group);
            backend.run(TransposeFp8{.rowwise = matrix.rowwise, .columnwise = matrix.columnwise});
        }
        for (const ParameterGroup* group : (*units)[unit].in_compute)
            parameters.to_fp8(backend, memory[MemoryUse::workspace], *group);
    };
    return {.start = start, .finish = finish};
}

void find_amaxes(Backend& backend, const Mesh& mesh, const Parameters& parameters) {
    if (parameters.amaxes().empty()) return;
    backend.run(Fill{.x = parameters.amaxes(), .value = 0});
    Communicator* owners = nullptr;  // all FP8 groups have the same
    for (const WeightMessage& message : weight_messages(parameters.layout(), mesh)) {
        if (!message.fp8) continue;
        owners = &mesh[message.owners];
        backend.run(UpdateAmax{.x = parameters.owned_weights(own_part(mesh, message)),
                               .amax = parameters.amax(group_of(parameters, message))});
    }
    if (owners != nullptr) owners->all_reduce(parameters.amaxes(), Reduce::max).wait();
}

}  // namespace gptrain
