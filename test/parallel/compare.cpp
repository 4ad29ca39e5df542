#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <mpi.h>
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

/// Calls f with each number of the noise, in the same order for equal models.
void visit_noise(Reference& reference, const auto& f) {
    for (std::vector<double>* noise :
         {&reference.loss_noise, &reference.norm_noise, &reference.measure_noise}) {
        for (double& value : *noise)
            f(value);
    }
    for (auto& [name, value] : reference.weight_noise)
        f(value);
}

}  // namespace

Reference shared_reference(const RunSpec& spec) {
    // The machines that run these tests have two cores.
    constexpr int workers = 2;
    const int rank = session().rank();
    if (rank >= workers) return {};
    Reference reference =
        make_reference(spec, compared_steps, &progress(),
                       {.first = static_cast<std::uint64_t>(rank) + 1, .step = workers});
    std::vector<double> noise;
    visit_noise(reference, [&](double value) { noise.push_back(value); });
    const int count = static_cast<int>(noise.size());
    if (rank == 1) {
        REQUIRE(MPI_Send(noise.data(), count, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
        return reference;
    }
    REQUIRE(MPI_Recv(noise.data(), count, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
            MPI_SUCCESS);
    auto other = noise.begin();
    visit_noise(reference, [&](double& value) { value = std::max(value, *other++); });
    return reference;
}

void check_equal(const StepResults& results, const Reference& reference) {
    check_series(results.losses, reference.results.losses, reference.loss_noise);
    check_series(results.grad_norms, reference.results.grad_norms, reference.norm_noise);
    check_series(results.measures, reference.results.measures, reference.measure_noise);
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

std::vector<MeshCase> covering_here(std::vector<MeshCase> cases) {
    // Four ranks show each axis and each pair of axes.
    if (session().size() > 4 && std::any_of(cases.begin(), cases.end(), has_three_axes))
        std::erase_if(cases, std::not_fn(has_three_axes));
    return covering(cases);
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
    if (spec.model.experts) spec.model.experts->load = mesh_case.load;
    return spec;
}

double distance_of_all(const NamedValues& a, const NamedValues& b) {
    double squares = 0;
    for (const auto& [name, values] : a)
        squares += std::pow(distance(values, b.at(name)), 2);
    return std::sqrt(squares);
}

bool is_dense(const MeshCase& mesh_case) {
    return mesh_case.model.find("experts") == std::string::npos;
}

void compare_covering(const std::function<void(RunSpec&)>& change,
                      const std::function<bool(const MeshCase&)>& takes,
                      std::vector<MeshCase> (*changed)(std::vector<MeshCase> cases)) {
    const bool first = session().rank() == 0;
    std::map<std::string, RunSpec> specs;
    std::map<std::string, Reference> references;
    for (const Model& model : models())
        change(specs[model.name] = model.spec);
    std::vector<MeshCase> cases = tested_cases(session().size());
    std::erase_if(cases, [&](const MeshCase& mesh_case) { return !takes(mesh_case); });
    REQUIRE(!cases.empty());
    cases = covering_here(cases);
    if (changed != nullptr) cases = changed(cases);
    for (const MeshCase& mesh_case : cases) {
        if (!wanted(mesh_case)) continue;
        const RunSpec& plain = specs.at(mesh_case.model);
        if (!references.contains(mesh_case.model))
            references[mesh_case.model] = shared_reference(plain);
        INFO(mesh_case.name);
        const StepResults results =
            run_on_mesh(session(), spec_of(plain, mesh_case), compared_steps, change_of(mesh_case));
        if (first) check_equal(results, references.at(mesh_case.model));
    }
}

}  // namespace gptrain::test
