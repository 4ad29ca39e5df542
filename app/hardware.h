// The hardware that --hardware names.
#pragma once

#include <cstdint>
#include <string>

#include "hardware/profile.h"

namespace gptrain {

/// The cores that this process may use.
std::int64_t own_cores();

/// The profile `cpu` with this many cores, the memory of this machine, and the threads that
/// OMP_NUM_THREADS gives a rank. It has no other nodes.
HardwareProfile this_cpu(std::int64_t cores = own_cores());

/// True if `--hardware word` means this_cpu().
bool means_this_cpu(const std::string& word);

/// The profile of `--hardware word`.
HardwareProfile find_hardware(const std::string& word, std::int64_t cores = own_cores());

/// Prints which profile an abbreviation means and what makes its estimates rough. An empty word
/// stands for this_cpu().
void print_notes(const std::string& word, const HardwareProfile& profile);

/// Both.
HardwareProfile read_hardware(const std::string& word, std::int64_t cores = own_cores());

}  // namespace gptrain
