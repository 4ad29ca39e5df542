#include "spinning.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include "base/error.h"
#include "spec/run_spec.h"

namespace gptrain {
namespace {

// Iterations that a waiting thread spins before it sleeps: tens of microseconds.
// docs/performance.md, "Beside other programs", has the measurements for this number and the next
// one.
constexpr auto spin_count = "4000";

// FLOPs of a GEMM from which on the cost of waking a thread is too small to measure.
constexpr double long_gemm_flops = 50e6;

/// FLOPs of the smallest GEMM of a layer on one rank.
double smallest_gemm_flops(const RunSpec& spec) {
    const double tokens = static_cast<double>(spec.training.micro_batch_size) *
                          static_cast<double>(spec.training.seq_length) /
                          static_cast<double>(spec.parallel.context);
    const auto hidden = static_cast<double>(spec.model.hidden_size);
    return 2 * tokens * hidden * hidden / static_cast<double>(spec.parallel.tensor);
}

bool has_long_loops(const std::string& config, const std::vector<std::string>& settings) {
    try {
        return smallest_gemm_flops(load_run_spec(config, settings)) >= long_gemm_flops;
    } catch (const Error&) {
        return false;
    }
}

/// Splits this process's command line; every argument ends with a null character, the last one too.
std::vector<char*> arguments_in(std::string& command_line) {
    std::vector<char*> arguments;
    for (std::size_t at = 0; at < command_line.size(); at = command_line.find('\0', at) + 1)
        arguments.push_back(command_line.data() + at);
    arguments.push_back(nullptr);
    return arguments;
}

}  // namespace

void limit_spinning(const std::string& config, const std::vector<std::string>& settings) {
    if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
    if (!has_long_loops(config, settings)) return;
    if (::setenv("GOMP_SPINCOUNT", spin_count, 1) != 0) return;
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string command_line(std::istreambuf_iterator<char>(file), {});
    // If the system refuses, the run continues with the default.
    ::execv("/proc/self/exe", arguments_in(command_line).data());
}

}  // namespace gptrain
