// What one rank computes in a few steps, and how far from it rounding alone can lead: what runs on
// meshes are compared with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tiny_run.h"

namespace gptrain::test {

struct StepResults {
    std::vector<double> losses;  ///< of the steps, then that of an evaluation
    std::vector<double> grad_norms;
    NamedValues weights;  ///< after the last step
    double counted = 0;   ///< squares of a gradient of ones, over the whole model
};

// The parts of a run on any mesh.
/// Steps 1 to `steps`. Before each of them every weight is moved by at most half the distance of
/// two floats next to each other, as `disturbance` draws it; 0: undisturbed.
void take_steps(TinyRun& run, int steps, std::uint64_t disturbance, StepResults& results);
/// The loss of what would be the next step's batch.
void evaluate(TinyRun& run, int steps, StepResults& results);
/// Squares of the gradients counted if each were 1.
double count_of_ones(TinyRun& run);

/// Runs of one rank, and how far the farthest of a few disturbed ones is from the undisturbed one.
struct Reference {
    StepResults results;
    std::vector<double> loss_noise;
    std::vector<double> norm_noise;
    std::map<std::string, double> weight_noise;  ///< 2-norm of the difference, of each tensor
};
/// `watcher`, if any, is told of all actions.
Reference make_reference(const RunSpec& spec, int steps, ActionListener* watcher = nullptr);

/// One run of one rank on the tested backend.
StepResults run_alone(const RunSpec& spec, int steps, ActionListener* watcher = nullptr,
                      std::uint64_t disturbance = 0);

/// How far a value of this size may be from the reference, where that has this noise: another order
/// of all sums may lead four times as far as disturbed weights do.
double allowed(double noise, double size);

}  // namespace gptrain::test
