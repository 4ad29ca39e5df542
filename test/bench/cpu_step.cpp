#include "cpu_step.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

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

int measure_steps(const char* program, int argc, char** argv, const MeasureSteps& measure) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const bool counted = words.size() == 3 || words.size() == 4;
    const auto sequences = counted ? parse_int(words[0]) : std::nullopt;
    const auto seq_length = counted ? parse_int(words[1]) : std::nullopt;
    const auto steps = words.size() == 4 ? parse_int(words[3]) : 5;
    if (!sequences || !seq_length || !steps || (words[2] != "fp32" && words[2] != "bf16")) {
        warn("usage: ", program, " SEQUENCES SEQ_LENGTH fp32|bf16 [STEPS]");
        return 2;
    }
    const Precision precision = words[2] == "bf16" ? Precision::bf16 : Precision::fp32;
    try {
        print(to_line(measure(*sequences, *seq_length, precision, *steps)));
    } catch (const Error& error) {
        error_line(program, error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}

}  // namespace gptrain::bench
