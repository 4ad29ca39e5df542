#include "spec/run_plan.h"

#include <algorithm>

#include "base/checked.h"

namespace gptrain {

bool ModelShape::has_window(std::int64_t layer) const {
    return sliding_window &&
           !std::binary_search(full_attention_layers.begin(), full_attention_layers.end(), layer);
}

bool Lora::adapts(LinearName layer) const {
    return std::find(targets.begin(), targets.end(), layer) != targets.end();
}

ModelShape without_adapter(ModelShape model) {
    model.lora.reset();
    model.prompt.reset();
    return model;
}

std::int64_t dealt_microbatches(std::int64_t microbatches, std::int64_t data_ranks,
                                std::int64_t data_rank) {
    return microbatches / data_ranks + (data_rank < microbatches % data_ranks ? 1 : 0);
}

std::int64_t RunPlan::microbatches(std::int64_t global_batch_size, std::int64_t data_rank) const {
    return dealt_microbatches(div_exact(global_batch_size, micro_batch_size), mesh.data, data_rank);
}

}  // namespace gptrain
