// The results of one rank in a few steps, and how far rounding alone can move them; results on
// meshes are compared with these.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tiny_run.h"

namespace gptrain::test {

struct StepResults {
    std::vector<double> losses;  ///< of the steps, then of an evaluation
    std::vector<double> grad_norms;
    std::vector<double> measures;  ///< the means of those that a step has
    NamedValues weights;           ///< after the last step
    double counted = 0;            ///< squares of a gradient of ones, over the whole model
    std::int64_t repeats = 0;      ///< steps that were computed again in slices
};

// The parts of a run on any mesh.

/// Runs steps 1 to `steps`. Before each step every weight moves by at most half the distance
/// between adjacent floats, drawn from the seed `disturbance`; 0: undisturbed.
void take_steps(TinyRun& run, int steps, std::uint64_t disturbance, StepResults& results);
/// Appends the loss of the batch that the next step would use.
void evaluate(TinyRun& run, int steps, StepResults& results);
/// The sum of squared gradients if each gradient were 1.
double count_of_ones(TinyRun& run);

/// Runs of one rank, and the largest distance of a few disturbed runs from the undisturbed one.
struct Reference {
    StepResults results;
    std::vector<double> loss_noise;
    std::vector<double> norm_noise;
    std::vector<double> measure_noise;
    std::map<std::string, double> weight_noise;  ///< 2-norm of the difference, for each tensor
};
/// The disturbed runs: with the seeds first, first + step and so on up to 8.
struct Disturbances {
    std::uint64_t first = 1;
    std::uint64_t step = 1;
};
/// `watcher`, if any, receives all actions.
Reference make_reference(const RunSpec& spec, int steps, ActionListener* watcher = nullptr,
                         const Disturbances& seeds = {});

/// One run of one rank on the tested backend.
StepResults run_alone(const RunSpec& spec, int steps, ActionListener* watcher = nullptr,
                      std::uint64_t disturbance = 0);

/// How far a value of this size may be from a reference with this noise: reordering all sums may
/// move it four times as far as disturbed weights do.
double allowed(double noise, double size);

}  // namespace gptrain::test
