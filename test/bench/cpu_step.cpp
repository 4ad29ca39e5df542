#include "cpu_step.h"

namespace gptrain::bench {

RunSpec gpt2_124m(std::int64_t sequences, std::int64_t seq_length, Precision precision) {
    RunSpec spec;
    spec.name = "bench";
    spec.model.num_layers = 12;
    spec.model.hidden_size = 768;
    spec.model.num_attention_heads = 12;
    spec.model.vocab_size = 50257;
    spec.model.max_position_embeddings = 1024;
    spec.training.seq_length = seq_length;
    spec.training.micro_batch_size = sequences;
    spec.training.steps = 100;
    spec.precision.compute = precision;
    spec.recompute = Recompute::none;
    spec.checkpoint.async = false;
    return spec;
}

StepBatch made_up_batch(const RunPlan& plan) {
    Microbatch microbatch;
    const std::int64_t tokens = plan.micro_batch_size * plan.seq_length;
    for (std::int64_t i = 0; i < tokens; ++i) {
        const auto id = static_cast<std::int32_t>(i * 7919 % plan.model.vocab);
        microbatch.ids.push_back(id);
        microbatch.targets.push_back(static_cast<std::int32_t>((id + 1) % plan.model.vocab));
        microbatch.positions.push_back(static_cast<std::int32_t>(i % plan.seq_length));
        microbatch.weights.push_back(1.0f);
    }
    StepBatch batch;
    batch.global_batch_size = plan.batch.global_batch_size;
    const std::int64_t microbatches = plan.microbatches(batch.global_batch_size);
    batch.weight_sum = static_cast<double>(tokens * microbatches);
    batch.microbatches.assign(static_cast<std::size_t>(microbatches), microbatch);
    return batch;
}

}  // namespace gptrain::bench
