#include "memory_headroom.h"

#include "base/error.h"
#include "planner/step_prices.h"

namespace gptrain {

CLI::Option* add_memory_headroom(CLI::App& command, std::string& word) {
    return command
        .add_option("--memory-headroom", word, "Share of the device's memory to leave free")
        ->type_name("PERCENT")
        ->capture_default_str();
}

double headroom_share(std::string_view word) {
    const bool percent = word.ends_with('%');
    const auto value = parse_double(word.substr(0, word.size() - (percent ? 1 : 0)));
    if (!percent || !value || *value < 0 || *value >= 100) {
        fail(ExitCode::usage, "--memory-headroom ", word,
             ": give a share of the device's memory from 0% to below 100%, such as 5%");
    }
    return *value / 100;
}

double usable_memory(const HardwareProfile& hardware, std::int64_t ranks, double headroom) {
    return (1 - headroom) * hardware.device.memory * share_of_node(hardware, ranks);
}

}  // namespace gptrain
