#include "mesh_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "catch.h"
#include "comm/comm_totals.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

void disturb(TinyRun& run, std::uint64_t seed) {
    NamedValues weights = run.state("weight");
    for (auto& [name, values] : weights) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            const PhiloxBlock words = philox({static_cast<std::uint32_t>(i), 0, 0, 0},
                                             philox_stream(seed, name_hash(name), 0, 0));
            const double off = (words[0] * 0x1p-31 - 1) * 0x1p-23;
            values[i] = static_cast<float>(double{values[i]} * (1 + off));
        }
    }
    run.set_weights(weights);
}

/// What steps send on each axis is what the meter says.
void check_sent(const CommTotals& totals, int steps, const StepCost& predicted) {
    for (int i = 0; i < axes; ++i) {
        const auto axis = static_cast<Axis>(i);
        CAPTURE(name_of(axis));
        CHECK(totals[axis].bytes == steps * predicted.sent(axis));
    }
}

void take_steps(TinyRun& run, int steps, std::uint64_t disturbance, StepResults& results) {
    for (int step = 1; step <= steps; ++step) {
        if (disturbance != 0) disturb(run, disturbance * 1000 + static_cast<std::uint64_t>(step));
        results.losses.push_back(
            run.step(random_batch(run.plan(), step, 1, run.mesh().place().dp)));
        results.grad_norms.push_back(run.engine().read_state().grad_norm);
    }
}

void evaluate(TinyRun& run, int step, StepResults& results) {
    const StepBatch other = random_batch(run.plan(), step, 1, run.mesh().place().dp);
    results.losses.push_back(run.engine().evaluate(other).mean());
}

/// An owned element: place in the whole tensor, and value.
struct Element {
    std::int64_t index;
    float value;
};

/// Every rank's owned elements of the weights, by tensor, as text: name, count, elements.
std::string owned_weights(TinyRun& run) {
    std::string bytes;
    run.engine().visit([&](const NamedState& state) {
        const Shard& shard = state.shard;
        if (state.group != "weight" || !shard.owned) return;
        std::vector<float> host(static_cast<std::size_t>(shard.elements()));
        run.backend().download(std::as_writable_bytes(std::span(host)), state.values);
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

/// Puts the pieces of one rank in their places. Returns how many of these were not free (NaN).
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

/// Squares of the gradients counted if each were 1.
double count_of_ones(TinyRun& run) {
    run.engine().visit_gradients([&](const NamedState& state) {
        if (state.shard.elements() > 0) run.backend().fill(state.values, 1);
    });
    return std::pow(run.engine().gradient_norm(), 2);
}

}  // namespace

StepResults run_alone(const RunSpec& spec, int steps, std::uint64_t disturbance) {
    TinyRun run(spec, make_backend());
    run.engine().listen(progress());
    StepResults results;
    take_steps(run, steps, disturbance, results);
    evaluate(run, steps + 1, results);
    results.weights = run.state("weight");
    results.counted = count_of_ones(run);
    return results;
}

StepResults run_on_mesh(const MpiSession& session, const RunSpec& spec, int steps) {
    CommTotals totals;
    CommListeners listeners;
    listeners.add(totals);
    listeners.add(progress());
    TinyRun run(spec, make_backend(), session.size(), [&](const RunPlan& plan, Backend& backend) {
        return make_mesh(plan, backend, listeners);
    });
    run.engine().listen(progress());
    StepResults results;
    totals.clear();
    take_steps(run, steps, 0, results);
    check_sent(totals, steps, run.cost());
    evaluate(run, steps + 1, results);
    MemoryPlan used = run.engine().memory().peaks();
    used[MemoryUse::messages] = run.mesh().held_bytes();
    CHECK(used == run.memory_plan());
    results.weights = gathered_weights(session, run);
    results.counted = count_of_ones(run);
    return results;
}

}  // namespace gptrain::test
