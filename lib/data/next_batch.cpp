#include "data/next_batch.h"

#include <array>
#include <exception>

namespace gptrain {

StepBatch next_batch(const std::function<StepBatch()>& load, const MeshPlace& place,
                     const MpiSession& ranks) {
    StepBatch batch;
    std::exception_ptr fault;
    try {
        batch = load();
    } catch (...) {
        fault = std::current_exception();
    }
    // Ranks that differ on other axes have the same batch; one of them counts.
    const bool counts = place.pp == 0 && place.cp == 0 && place.tp == 0;
    std::array<double, 2> sums = {fault ? 1.0 : 0.0, counts ? batch.weight_sum : 0.0};
    ranks.sum(sums);
    if (sums[0] > 0) {
        ranks.run_on_all([&] {
            if (fault) std::rethrow_exception(fault);
        });
    }
    batch.weight_sum = sums[1];
    return batch;
}

}  // namespace gptrain
