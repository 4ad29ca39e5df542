// Logs and runs for the tests of reports.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "report/reported_run.h"

namespace gptrain::test {

inline RunLog log_of(std::initializer_list<std::string_view> lines) {
    RunLog log;
    for (const std::string_view line : lines)
        log.add(line);
    return log;
}

inline ReportedRun run_of(std::string label, RunLog log) {
    return {.label = std::move(label), .log = std::move(log), .spec = {}, .planned = {}};
}

/// The smallest spec; `settings` as on the command line.
inline RunSpec spec_of(const std::vector<std::string>& settings = {}) {
    return parse_run_spec(R"(
name: tiny
output_dir: runs/tiny
model: {num_layers: 2, hidden_size: 16, num_attention_heads: 2, vocab_size: 320}
data: {train: [{prefix: text}]}
training: {seq_length: 16, micro_batch_size: 1, global_batch_size: 2, steps: 20}
device: cpu
)",
                          "run.yaml", settings);
}

}  // namespace gptrain::test
