#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "ranks.h"
#include "spec/parallel_plan.h"

namespace gptrain::test {
namespace {

void check_series(const std::vector<double>& values, const std::vector<double>& right,
                  const std::vector<double>& noise) {
    REQUIRE(values.size() == right.size());
    for (std::size_t i = 0; i < right.size(); ++i) {
        CAPTURE(i, values[i], right[i]);
        CHECK(std::abs(values[i] - right[i]) <= allowed(noise[i], right[i]));
    }
}

}  // namespace

void check_equal(const StepResults& results, const Reference& reference) {
    check_series(results.losses, reference.results.losses, reference.loss_noise);
    check_series(results.grad_norms, reference.results.grad_norms, reference.norm_noise);
    REQUIRE(results.weights.size() == reference.results.weights.size());
    for (const auto& [name, values] : reference.results.weights) {
        CAPTURE(name);
        CHECK(distance(results.weights.at(name), values) <=
              allowed(reference.weight_noise.at(name), norm(values)));
    }
    CHECK(results.counted == reference.results.counted);
}

bool wanted(const MeshCase& mesh_case) {
    const char* part = std::getenv("GPTRAIN_MESH_CASES");
    return part == nullptr || mesh_case.name.find(part) != std::string::npos;
}

PlanChange change_of(const MeshCase& mesh_case) {
    return [&](RunPlan& plan) {
        plan.messages_in_order |= mesh_case.messages_in_order;
        if (plan.peer_messages) take_pieces_by_rank(plan);
    };
}

RunSpec spec_of(RunSpec spec, const MeshCase& mesh_case) {
    spec.parallel = mesh_case.parallel;
    spec.recompute = mesh_case.recompute;
    spec.training.micro_batch_size = mesh_case.micro_batch_size;
    return spec;
}

double distance_of_all(const NamedValues& a, const NamedValues& b) {
    double squares = 0;
    for (const auto& [name, values] : a)
        squares += std::pow(distance(values, b.at(name)), 2);
    return std::sqrt(squares);
}

void compare_covering(const std::function<void(RunSpec&)>& change,
                      const std::function<bool(const MeshCase&)>& takes) {
    const bool first = session().rank() == 0;
    std::map<std::string, RunSpec> specs;
    std::map<std::string, Reference> references;
    for (const Model& model : models())
        change(specs[model.name] = model.spec);
    std::vector<MeshCase> cases = tested_cases(session().size());
    std::erase_if(cases, [&](const MeshCase& mesh_case) { return !takes(mesh_case); });
    REQUIRE(!cases.empty());
    // Four ranks show each axis and each pair of axes.
    if (session().size() > 4 && std::any_of(cases.begin(), cases.end(), has_three_axes))
        std::erase_if(cases, [](const MeshCase& mesh_case) { return !has_three_axes(mesh_case); });
    for (const MeshCase& mesh_case : covering(cases)) {
        if (!wanted(mesh_case)) continue;
        const RunSpec& plain = specs.at(mesh_case.model);
        if (first && !references.contains(mesh_case.model))
            references[mesh_case.model] = make_reference(plain, compared_steps, &progress());
        INFO(mesh_case.name);
        const StepResults results =
            run_on_mesh(session(), spec_of(plain, mesh_case), compared_steps, change_of(mesh_case));
        if (first) check_equal(results, references.at(mesh_case.model));
    }
}

}  // namespace gptrain::test
