#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/log.h"
#include "catch.h"
#include "mesh_cases.h"
#include "mesh_run.h"
#include "ranks.h"

namespace gptrain::test {
namespace {

constexpr int steps = 5;

double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        squares += std::pow(double{a[i]} - double{b[i]}, 2);
    return std::sqrt(squares);
}

/// What one rank computes, and how far from it rounding alone can lead: the farthest of a few runs
/// whose weights are moved by a unit in the last place before each step.
struct Reference {
    StepResults results;
    std::vector<double> loss_noise;
    std::vector<double> norm_noise;
    std::map<std::string, double> weight_noise;
};

void widen(std::vector<double>& noise, const std::vector<double>& a, const std::vector<double>& b) {
    noise.resize(a.size());
    for (std::size_t i = 0; i < a.size(); ++i)
        noise[i] = std::max(noise[i], std::abs(a[i] - b[i]));
}

Reference make_reference(const RunSpec& spec) {
    Reference reference;
    reference.results = run_alone(spec, steps);
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        const StepResults other = run_alone(spec, steps, seed);
        widen(reference.loss_noise, other.losses, reference.results.losses);
        widen(reference.norm_noise, other.grad_norms, reference.results.grad_norms);
        for (const auto& [name, values] : reference.results.weights) {
            double& noise = reference.weight_noise[name];
            noise = std::max(noise, distance(values, other.weights.at(name)));
        }
    }
    return reference;
}

/// How many times farther another order of all sums may lead than disturbed weights do.
constexpr double slack = 4;
constexpr double rounding = 0x1p-24;

void check_series(const std::vector<double>& values, const std::vector<double>& right,
                  const std::vector<double>& noise) {
    REQUIRE(values.size() == right.size());
    for (std::size_t i = 0; i < right.size(); ++i) {
        CAPTURE(i, values[i], right[i]);
        CHECK(std::abs(values[i] - right[i]) <= slack * (noise[i] + rounding * right[i]));
    }
}

void check_equal(const StepResults& results, const Reference& reference) {
    check_series(results.losses, reference.results.losses, reference.loss_noise);
    check_series(results.grad_norms, reference.results.grad_norms, reference.norm_noise);
    REQUIRE(results.weights.size() == reference.results.weights.size());
    for (const auto& [name, values] : reference.results.weights) {
        CAPTURE(name);
        const double norm = distance(values, std::vector<float>(values.size()));
        const double allowed = slack * (reference.weight_noise.at(name) + rounding * norm);
        CHECK(distance(results.weights.at(name), values) <= allowed);
    }
    CHECK(results.counted == reference.results.counted);
}

/// For those who look into a failure: the cases whose names have the text in GPTRAIN_MESH_CASES.
bool wanted(const MeshCase& mesh_case) {
    const char* part = std::getenv("GPTRAIN_MESH_CASES");
    return part == nullptr || mesh_case.name.find(part) != std::string::npos;
}

/// 2-norm of the difference over all tensors.
double distance(const NamedValues& a, const NamedValues& b) {
    double squares = 0;
    for (const auto& [name, values] : a)
        squares += std::pow(distance(values, b.at(name)), 2);
    return std::sqrt(squares);
}

}  // namespace

TEST_CASE("Meshes in bf16 are about as far from fp32 as one rank is") {
    const bool first = session().rank() == 0;
    for (const Model& model : models()) {
        StepResults exact;
        StepResults alone;
        RunSpec spec = model.spec;
        if (first) exact = run_alone(spec, steps);
        spec.precision.compute = Precision::bf16;
        if (first) alone = run_alone(spec, steps);
        // Every fourth mesh of this model.
        int turn = 0;
        for (const MeshCase& mesh_case : tested_cases(session().size())) {
            if (mesh_case.model != model.name || turn++ % 4 != 0 || !wanted(mesh_case)) continue;
            spec.parallel = mesh_case.parallel;
            spec.recompute = mesh_case.recompute;
            INFO(mesh_case.name);
            const StepResults results = run_on_mesh(session(), spec, steps);
            if (!first) continue;
            CHECK(distance(results.weights, exact.weights) <=
                  2 * distance(alone.weights, exact.weights));
            for (std::size_t i = 0; i < exact.losses.size(); ++i) {
                // One rounding of a logit to bf16 moves the loss of a token by this much.
                const double rounding = 0x1p-8;
                CHECK(std::abs(results.losses[i] - exact.losses[i]) <=
                      2 * std::abs(alone.losses[i] - exact.losses[i]) + rounding);
            }
        }
    }
}

TEST_CASE("Every mesh trains as one rank does") {
    const bool first = session().rank() == 0;
    std::map<std::string, RunSpec> specs;
    std::map<std::string, Reference> references;
    for (const Model& model : models())
        specs[model.name] = model.spec;
    for (const MeshCase& mesh_case : tested_cases(session().size())) {
        if (!wanted(mesh_case)) continue;
        if (first && !references.contains(mesh_case.model))
            references[mesh_case.model] = make_reference(specs.at(mesh_case.model));
        RunSpec spec = specs.at(mesh_case.model);
        spec.parallel = mesh_case.parallel;
        spec.recompute = mesh_case.recompute;
        INFO(mesh_case.name);
        if (first) print(mesh_case.name);
        const StepResults results = run_on_mesh(session(), spec, steps);
        if (first) check_equal(results, references.at(mesh_case.model));
    }
}

}  // namespace gptrain::test
