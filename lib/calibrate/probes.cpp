#include "calibrate/probes.h"

#include <algorithm>
#include <iterator>

namespace gptrain {
namespace {

constexpr Probe on_cpu[] = {
    {.hidden = 128, .heads = 4, .vocab = 1024, .seq_length = 128, .sequences = 1},
    {.hidden = 128, .heads = 2, .vocab = 2048, .seq_length = 64, .sequences = 16},
    {.hidden = 256, .heads = 4, .vocab = 8192, .seq_length = 256, .sequences = 1},
    {.hidden = 256, .heads = 8, .vocab = 2048, .seq_length = 128, .sequences = 16},
    {.hidden = 512, .heads = 8, .vocab = 8192, .seq_length = 256, .sequences = 2},
    {.hidden = 512, .heads = 4, .vocab = 2048, .seq_length = 1024, .sequences = 1, .llama = true},
    {.hidden = 1024, .heads = 16, .vocab = 16384, .seq_length = 128, .sequences = 2},
    {.hidden = 256,
     .heads = 4,
     .vocab = 4096,
     .seq_length = 256,
     .sequences = 2,
     .precision = Precision::bf16},
    {.hidden = 768,
     .heads = 12,
     .vocab = 8192,
     .seq_length = 256,
     .sequences = 1,
     .precision = Precision::bf16},
    // The ops that only ranks have which share a model.
    {.hidden = 256, .heads = 4, .vocab = 2048, .seq_length = 128, .sequences = 1, .tensor = 2},
    {.hidden = 512, .heads = 8, .vocab = 8192, .seq_length = 256, .sequences = 2, .tensor = 2},
    {.hidden = 256, .heads = 4, .vocab = 2048, .seq_length = 128, .sequences = 1, .context = 2},
    {.hidden = 512, .heads = 8, .vocab = 8192, .seq_length = 256, .sequences = 2, .context = 2},
};

constexpr Probe gpu_probe(std::int64_t hidden, std::int64_t heads, std::int64_t seq_length,
                          std::int64_t sequences, Precision precision = Precision::bf16) {
    return {.hidden = hidden,
            .heads = heads,
            .vocab = 50304,
            .seq_length = seq_length,
            .sequences = sequences,
            .precision = precision};
}

constexpr Probe llama(Probe probe) {
    probe.llama = true;
    return probe;
}

constexpr Probe tensor(std::int64_t ranks, Probe probe) {
    probe.tensor = ranks;
    return probe;
}

constexpr Probe context(std::int64_t ranks, Probe probe) {
    probe.context = ranks;
    return probe;
}

constexpr Probe on_gpu[] = {
    gpu_probe(768, 12, 1024, 16),
    gpu_probe(1600, 25, 1024, 8),
    gpu_probe(2048, 16, 2048, 4),
    llama(gpu_probe(2048, 16, 8192, 1)),
    llama(gpu_probe(4096, 32, 4096, 1)),
    gpu_probe(5120, 40, 2048, 2),
    gpu_probe(2048, 16, 2048, 4, Precision::fp16),
    gpu_probe(1024, 16, 1024, 4, Precision::fp32),
    gpu_probe(2048, 16, 2048, 4, Precision::fp8),
    gpu_probe(4096, 32, 2048, 4, Precision::fp8),
    // The ops that only ranks have which share a model.
    tensor(2, gpu_probe(2048, 16, 2048, 4)),
    tensor(2, gpu_probe(4096, 32, 2048, 2)),
    context(2, gpu_probe(2048, 16, 4096, 2)),
    context(2, gpu_probe(4096, 32, 4096, 1)),
};

}  // namespace

std::span<const Probe> cpu_probes() {
    return on_cpu;
}

std::vector<Probe> gpu_probes(bool fp8) {
    std::vector<Probe> probes;
    std::copy_if(std::begin(on_gpu), std::end(on_gpu), std::back_inserter(probes),
                 [&](const Probe& probe) { return fp8 || probe.precision != Precision::fp8; });
    return probes;
}

RunSpec spec_of(const Probe& probe) {
    RunSpec spec;
    spec.name = "calibrate";
    // FP8 leaves out the first and the last.
    spec.model.num_layers = probe.precision == Precision::fp8 ? 3 : 2;
    spec.model.hidden_size = probe.hidden;
    spec.model.num_attention_heads = probe.heads;
    spec.model.vocab_size = probe.vocab;
    if (probe.llama) {
        spec.model.position_embedding = PositionEmbedding::rope;
        spec.model.normalization = Normalization::rmsnorm;
        spec.model.activation = Activation::swiglu;
        spec.model.bias = false;
    }
    spec.training.seq_length = probe.seq_length;
    spec.training.micro_batch_size = probe.sequences;
    spec.training.steps = 1'000'000;  // more than will run
    spec.parallel.tensor = probe.tensor;
    spec.parallel.context = probe.context;
    spec.precision.compute = probe.precision;
    spec.checkpoint.async = false;
    return spec;
}

}  // namespace gptrain
