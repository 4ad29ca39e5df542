#include "child_checks.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "base/child.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/log.h"
#include "commands.h"
#include "cuda/cuda_backend.h"

namespace gptrain {
namespace {

constexpr auto command_name = "check-attention";
constexpr auto own_file = "/proc/self/exe";

}  // namespace

std::uint32_t program_checksum() {
    const MappedFile program(own_file);
    return crc32c(program.bytes().data(), program.bytes().size());
}

AttentionCheck check_attention_in_child(int device, std::chrono::seconds limit) {
    const ChildEnd end = run_child(own_file, {command_name, "--device", text(device)}, limit);
    if (end.kind != ChildEnd::Kind::exited || end.number != 0) {
        return {.fault = "their check " + end.describe(),
                .timed_out = end.kind == ChildEnd::Kind::timed_out};
    }
    return {.fault = end.output.substr(0, end.output.find('\n'))};
}

void add_check_attention(CLI::App& app, Command& chosen) {
    CLI::App* command = app.add_subcommand(
        command_name, "Compare the attention kernels of compute capability 9.0 with the others");
    command->group("");
    const auto device = std::make_shared<int>(0);
    command->add_option("--device", *device, "Among those visible to the process");
    command->final_callback([device, &chosen] {
        chosen = [device] {
            print(cuda::attention_fault(*device));
            return ExitCode::done;
        };
    });
}

}  // namespace gptrain
