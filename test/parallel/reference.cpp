#include "reference.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

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

void widen(std::vector<double>& noise, const std::vector<double>& a, const std::vector<double>& b) {
    noise.resize(a.size());
    for (std::size_t i = 0; i < a.size(); ++i)
        noise[i] = std::max(noise[i], std::abs(a[i] - b[i]));
}

}  // namespace

void take_steps(TinyRun& run, int steps, std::uint64_t disturbance, StepResults& results) {
    for (int step = 1; step <= steps; ++step) {
        if (disturbance != 0) disturb(run, disturbance * 1000 + static_cast<std::uint64_t>(step));
        results.losses.push_back(
            run.step(random_batch(run.plan(), step, 1, run.mesh().place().dp)));
        results.grad_norms.push_back(run.engine().read_state().grad_norm);
        const StepNumbers numbers = run.engine().numbers_at(run.engine().mark_state());
        for (const WeightedSum& measure : numbers.measures)
            if (measure.weight > 0) results.measures.push_back(measure.mean());
    }
}

void evaluate(TinyRun& run, int steps, StepResults& results) {
    const StepBatch other = random_batch(run.plan(), steps + 1, 1, run.mesh().place().dp);
    results.losses.push_back(run.engine().evaluate(other).loss.mean());
}

double count_of_ones(TinyRun& run) {
    run.engine().visit_gradients([&](const NamedState& state) {
        if (state.shard.elements() > 0) run.backend().run(Fill{.x = state.values, .value = 1});
    });
    return std::pow(run.engine().gradient_norm(), 2);
}

StepResults run_alone(const RunSpec& spec, int steps, ActionListener* watcher,
                      std::uint64_t disturbance) {
    TinyRun run(spec);
    if (watcher != nullptr) run.engine().listen(*watcher);
    StepResults results;
    take_steps(run, steps, disturbance, results);
    evaluate(run, steps, results);
    results.weights = run.state("weight");
    results.counted = count_of_ones(run);
    return results;
}

Reference make_reference(const RunSpec& spec, int steps, ActionListener* watcher,
                         const Disturbances& seeds) {
    Reference reference;
    reference.results = run_alone(spec, steps, watcher);
    for (std::uint64_t seed = seeds.first; seed <= 8; seed += seeds.step) {
        const StepResults other = run_alone(spec, steps, watcher, seed);
        widen(reference.loss_noise, other.losses, reference.results.losses);
        widen(reference.norm_noise, other.grad_norms, reference.results.grad_norms);
        widen(reference.measure_noise, other.measures, reference.results.measures);
        for (const auto& [name, values] : reference.results.weights) {
            double& noise = reference.weight_noise[name];
            noise = std::max(noise, distance(values, other.weights.at(name)));
        }
    }
    return reference;
}

double allowed(double noise, double size) {
    constexpr double rounding = 0x1p-24;
    return 4 * (noise + rounding * size);
}

}  // namespace gptrain::test
