#include "mesh_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "catch.h"
#include "comm/comm_totals.h"
#include "delayed.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

/// Checks that steps send on each axis what the meter predicts.
void check_sent(const CommTotals& totals, int steps, const StepCost& predicted) {
    for (int i = 0; i < axes; ++i) {
        const auto axis = static_cast<Axis>(i);
        CAPTURE(name_of(axis));
        CHECK(totals[axis].bytes == steps * predicted.sent(axis));
    }
}

/// An owned element: its index in the whole tensor, and its value.
struct Element {
    std::int64_t index;
    float value;
};

/// This rank's owned elements of the weights, by tensor, as text: name, count, elements.
std::string owned_weights(TinyRun& run) {
    std::string bytes;
    run.visit_state([&](const NamedState& state) {
        const Shard& shard = state.shard;
        if (state.group != "weight" || !shard.owned) return;
        const std::vector<float> host = host_values(run.backend(), state);
        std::vector<Element> elements;
        for (std::size_t i = 0; i < host.size(); ++i) {
            const auto flat = shard.flat_begin + static_cast<std::int64_t>(i);
            elements.push_back({shard.global_index(flat), host[i]});
        }
        const std::int64_t sizes[] = {std::ssize(shard.name), std::ssize(elements),
                                      shard.global.elements()};
        bytes.append(reinterpret_cast<const char*>(sizes), sizeof sizes);
        bytes += shard.name;
        bytes.append(reinterpret_cast<const char*>(elements.data()),
                     elements.size() * sizeof(Element));
    });
    return bytes;
}

template <class T>
T take(const std::string& bytes, std::size_t& at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
    return value;
}

/// Puts one rank's pieces in their places. Returns how many elements were already taken (not NaN).
int add_weights(NamedValues& weights, const std::string& bytes) {
    int taken = 0;
    for (std::size_t at = 0; at < bytes.size();) {
        const auto name_length = take<std::int64_t>(bytes, at);
        const auto count = take<std::int64_t>(bytes, at);
        const auto all = take<std::int64_t>(bytes, at);
        const std::string name = bytes.substr(at, static_cast<std::size_t>(name_length));
        at += name.size();
        std::vector<float>& values = weights[name];
        values.resize(static_cast<std::size_t>(all), NAN);
        for (std::int64_t i = 0; i < count; ++i) {
            const auto element = take<Element>(bytes, at);
            float& place = values.at(static_cast<std::size_t>(element.index));
            if (!std::isnan(place)) ++taken;
            place = element.value;
        }
    }
    return taken;
}

NamedValues gathered_weights(const MpiSession& session, TinyRun& run) {
    NamedValues weights;
    int with_two_owners = 0;
    for (const std::string& of_rank : session.exchange(owned_weights(run)))
        with_two_owners += add_weights(weights, of_rank);
    CHECK(with_two_owners == 0);
    for (const auto& [name, values] : weights) {
        const auto without_owner = std::count_if(values.begin(), values.end(),
                                                 [](float value) { return std::isnan(value); });
        CAPTURE(name);
        CHECK(without_owner == 0);
    }
    return weights;
}

}  // namespace

StepResults run_on_mesh(const MpiSession& session, const RunSpec& spec, int steps,
                        const PlanChange& change) {
    CommTotals totals;
    CommListeners listeners;
    listeners.add(totals);
    listeners.add(progress());
    TinyRun run(
        spec, make_backend(), session.size(),
        [&](const RunPlan& plan, Backend& backend) { return make_mesh(plan, backend, listeners); },
        change);
    run.engine().listen(progress());
    run.engine().listen(current_action());
    StepResults results;
    totals.clear();
    take_steps(run, steps, 0, results);
    // Repeated steps send more.
    if (run.repeats() == 0) check_sent(totals, steps, run.cost());
    results.repeats = run.repeats();
    evaluate(run, steps, results);
    results.weights = gathered_weights(session, run);
    if (run.plan().mesh.expert > 1) {
        // Memory for slices is there, needed or not.
        run.engine().step(random_batch(run.plan(), 1, 1, run.mesh().place().dp), 0,
                          {.slices = 2, .repeats = true});
    }
    MemoryPlan used = run.engine().memory().peaks();
    used[MemoryUse::messages] =
        holds_planned_messages() ? run.mesh().held_bytes() : run.memory_plan()[MemoryUse::messages];
    CAPTURE(to_text(used), to_text(run.memory_plan()));
    CHECK(used == run.memory_plan());
    results.counted = count_of_ones(run);
    return results;
}

}  // namespace gptrain::test
