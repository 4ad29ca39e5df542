// The loads of experts over a step: counted by routers (router.h), measured, and balanced by moving
// the bias of each router's choice (Wang et al. 2024, arXiv 2408.15664).
#pragma once

#include <vector>

#include "model/context.h"
#include "model/parameters.h"

namespace gptrain {

class ExpertBalance {
public:
    /// Memory for the counts of a step, fp64 [L, E]; empty without experts.
    static Tensor reserve(Memory& memory, const ModelShape& model);

    /// `context` has that memory. Both outlive it.
    ExpertBalance(const ModelContext& context, const Parameters& parameters);

    /// Clears the counts. Call before a step's first forward.
    void begin() const;
    /// Sums the counts over all ranks and adds the measures of loads. Call after the step's last
    /// action.
    void measure(const StepRef& step) const;
    /// Moves the biases, unless the step is skipped. Call when that has been decided.
    void update(const StepRef& step) const;

private:
    struct Bias {
        std::int64_t layer;
        Tensor values;  ///< fp32 [E]
    };
    const ModelContext& context_;
    std::vector<Bias> biases_;  ///< those that move
};

}  // namespace gptrain
