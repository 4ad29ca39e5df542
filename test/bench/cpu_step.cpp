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

}  // namespace gptrain::bench
