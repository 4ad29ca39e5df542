#include "mesh_cases.h"

#include "tiny_run.h"

namespace gptrain::test {
namespace {

RunSpec base(RunSpec spec) {
    spec.model.num_layers = 4;
    spec.model.hidden_size = 32;
    spec.model.num_attention_heads = 8;
    spec.model.ffn_hidden_size = 64;
    spec.model.vocab_size = 101;  // divides by nothing
    spec.model.dropout = 0.1;
    spec.training.seq_length = 16;
    spec.training.micro_batch_size = 2;
    spec.training.global_batch_size = 32;
    // A gradient that is zero but for rounding (that of the key bias) would else be blown up to a
    // full update, and nothing could be compared.
    spec.optimizer.eps = 1e-4;
    return spec;
}

std::string text_of(const ParallelSpec& p, Recompute recompute) {
    std::string name =
        text("dp ", p.data.value_or(1), " pp ", p.pipeline, " cp ", p.context, " tp ", p.tensor);
    if (p.sequence_parallel) name += " sequence_parallel";
    if (!p.shard_optimizer) name += " unsharded";
    return text(name, ", ", name_of(p.schedule), ", ", name_of(recompute));
}

}  // namespace

std::vector<Model> models() {
    RunSpec gpt = base(tiny_spec());
    RunSpec llama = base(tiny_llama_spec());
    llama.model.num_query_groups = 4;
    llama.model.num_layers = 5;
    RunSpec mixed = base(tiny_llama_spec());
    mixed.model.num_query_groups = 1;
    mixed.model.bias = true;
    mixed.model.tie_embeddings = true;
    mixed.model.position_embedding = PositionEmbedding::learned;
    return {{"gpt", gpt}, {"llama", llama}, {"mixed", mixed}};
}

std::vector<MeshCase> mesh_cases(std::int64_t ranks) {
    constexpr Recompute modes[] = {Recompute::none, Recompute::selective, Recompute::full};
    std::vector<MeshCase> cases;
    std::size_t turn = 0;
    const auto add = [&](const std::string& model, const ParallelSpec& parallel) {
        const Recompute recompute = modes[turn++ % std::size(modes)];
        cases.push_back(
            {text(model, ": ", text_of(parallel, recompute)), model, parallel, recompute});
    };
    for (std::int64_t tensor = 1; tensor <= ranks; tensor *= 2) {
        for (const char* model : {"gpt", "llama", "mixed"}) {
            ParallelSpec parallel;
            parallel.data = ranks / tensor;
            parallel.tensor = tensor;
            add(model, parallel);
            if (parallel.data > 1) {
                parallel.shard_optimizer = false;
                add(model, parallel);
                parallel.shard_optimizer = true;
            }
            if (tensor == 1) continue;
            parallel.sequence_parallel = true;
            add(model, parallel);
            parallel.schedule = ScheduleKind::zero_bubble;
            add(model, parallel);
        }
    }
    return cases;
}

}  // namespace gptrain::test
