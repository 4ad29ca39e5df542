#include "new_options.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/output_file.h"
#include "base/terminal.h"
#include "device.h"
#include "hardware.h"
#include "help/shell_text.h"
#include "tokenizer/tokenizer.h"

namespace gptrain {
namespace {

constexpr double usual_validation = 0.05;  // of the data
constexpr double most_validation_tokens = 10e6;

void check_cores(const NewOptions& options, const HardwareProfile& cpu) {
    if (options.rank_count() <= cpu.node.devices) return;
    fail(ExitCode::usage, "--ranks ", options.rank_count(), ": this machine has ",
         counted(cpu.node.devices, "core"), "; for more machines give --hardware FILE");
}

}  // namespace

HardwareProfile hardware_of(const NewOptions& options) {
    if (!options.hardware.empty()) {
        HardwareProfile profile = find_hardware(options.hardware);
        plan_for_cuda(parse_device(options.device), &profile);  // checks that they agree
        if (means_this_cpu(options.hardware)) check_cores(options, profile);
        return profile;
    }
    if (plan_for_cuda(parse_device(options.device))) {
        fail(ExitCode::usage,
             "new: for GPUs give --hardware NAME, the profile of one (h100-sxm, ...), or a file");
    }
    HardwareProfile profile = this_cpu();
    profile.name = text("the CPU of this machine, ", counted(profile.node.devices, "core"));
    check_cores(options, profile);
    return profile;
}

std::string tokenizer_of(const NewOptions& options, const IndexedDataset& data) {
    if (!options.tokenizer.empty() || !data.meta()) return options.tokenizer;
    const auto path = data.prefix().parent_path() / data.meta()->tokenizer_file;
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return "";
    const bool own = text(Tokenizer(path).fingerprint()) == text(data.meta()->tokenizer_crc32c);
    return own ? path.string() : "";
}

std::string split_of(const IndexedDataset& data) {
    const double least = 1.0 / static_cast<double>(std::max<std::int64_t>(1, data.num_sequences()));
    const double most =
        most_validation_tokens / static_cast<double>(std::max<std::int64_t>(1, data.num_tokens()));
    const double percent = 100 * std::min(usual_validation, std::max(least, most));
    const int digits = std::max(0, -static_cast<int>(std::floor(std::log10(percent))));
    return text(fixed(100 - percent, digits), ",", fixed(percent, digits), ",0");
}

std::string name_of_run(const NewOptions& options) {
    std::string name = std::filesystem::path(options.output).stem().string();
    if (name.empty()) name = std::filesystem::path(options.data).filename().string();
    constexpr std::string_view ending = "_text_document";
    if (name.ends_with(ending) && name.size() > ending.size())
        name.resize(name.size() - ending.size());
    return name;
}

std::string output_of(const NewOptions& options) {
    return options.output.empty() ? name_of_run(options) + ".yaml" : options.output;
}

void check_output(const std::string& output) {
    if (!named_yaml(output)) {
        fail(ExitCode::usage, "--output ", output,
             ": the name must end in .yaml or .yml, so that gptrain recognises a run spec");
    }
    check_output_file(output, "--output");
    require_new(output, "--output");
}

std::string shown_command(const NewOptions& options) {
    std::string out = text("gptrain new --data ", shell_word(options.data));
    if (!options.model.empty()) out += text(" --model ", shell_word(options.model));
    if (!options.way.empty()) out += text(" --way ", options.way);
    if (!options.host_memory.empty())
        out += text(" --host-memory ", shell_word(options.host_memory));
    if (!options.tokenizer.empty()) out += text(" --tokenizer ", shell_word(options.tokenizer));
    if (options.hours) out += text(" --hours ", *options.hours);
    if (options.tokens) out += text(" --tokens ", *options.tokens);
    if (options.experts) out += text(" --experts ", *options.experts);
    if (!options.device.empty()) out += text(" --device ", options.device);
    if (options.rank_count() != 1) out += text(" --ranks ", options.rank_count());
    if (!options.hardware.empty()) out += text(" --hardware ", shell_word(options.hardware));
    if (options.memory_headroom != default_headroom)
        out += text(" --memory-headroom ", options.memory_headroom);
    return without_controls(out);
}

}  // namespace gptrain
