#include "model/unit_gathers.h"

#include <utility>

namespace gptrain {

Pending send_weights(Backend& backend, const Mesh& mesh, const Parameters& parameters,
                     const WeightMessage& message) {
    const Tensor all = parameters.weights(message.range);
    Communicator& owners = mesh[message.owners];
    if (!message.owner) {
        const FlatRange own = part_of_bucket(message.range, owners.rank(), owners.size());
        return owners.all_gather(all, parameters.owned_weights(own), 0);
    }
    if (*message.owner == owners.rank()) {
        const Tensor own = parameters.owned_weights(message.range);
        if (own.data() != all.data()) backend.copy(all, own);
    }
    return owners.broadcast(all, *message.owner);
}

Parameters::Gather unit_gathers(Backend& backend, const Mesh& mesh, const Parameters& parameters) {
    const ParameterLayout& layout = parameters.layout();
    std::vector<std::vector<WeightMessage>> of_unit(
        parameters.placement().weight_windows.of_unit.size());
    for (const WeightMessage& message : weight_messages(layout, mesh))
        of_unit[message.unit].push_back(message);
    return [&backend, &mesh, &parameters, of_unit = std::move(of_unit)](std::size_t unit) {
        std::vector<Pending> pending;
        for (const WeightMessage& message : of_unit[unit])
            pending.push_back(send_weights(backend, mesh, parameters, message));
        return pending;
    };
}

}  // namespace gptrain
