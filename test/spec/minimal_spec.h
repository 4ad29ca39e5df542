// The smallest valid spec, and the message on an invalid one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "catch.h"
#include "spec/run_spec.h"

namespace gptrain::test {

/// Six lines; appended text starts on line 7.
inline const std::string minimal_spec =
    "name: tiny\n"
    "output_dir: /runs/tiny\n"
    "model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512}\n"
    "data:\n"
    "  train: [{prefix: /data/x}]\n"
    "training: {steps: 10}\n";

inline RunSpec minimal(const std::vector<std::string>& settings = {}) {
    return parse_run_spec(minimal_spec, "run.yaml", settings);
}

/// The message of the Error (usage) that `action` must throw.
template <class Action>
std::string usage_fault(Action action) {
    try {
        action();
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::usage);
        const std::string message = error.what();
        CHECK(message.find('\n') == std::string::npos);
        return message;
    }
    return "(accepted)";
}

}  // namespace gptrain::test
