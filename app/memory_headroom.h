// --memory-headroom: the share of a device's memory that plans leave free.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "hardware/profile.h"

namespace gptrain {

/// For differences between drivers, and for what is only estimated. A run checks the real memory.
constexpr std::string_view default_headroom = "1%";

/// `word` holds the default.
CLI::Option* add_memory_headroom(CLI::App& command, std::string& word);

/// The share of "5%". Error (usage) if that is none.
double headroom_share(std::string_view word);

/// The bytes that one of `ranks` ranks may use if a share of them stays free.
double usable_memory(const HardwareProfile& hardware, std::int64_t ranks, double headroom);

}  // namespace gptrain
