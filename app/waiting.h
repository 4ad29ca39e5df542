// How threads wait for each other between parallel loops.
#pragma once

#include <string>
#include <vector>

namespace gptrain {

/// Where the loops of a run are long, lets threads that wait sleep soon, so that training beside
/// another program keeps its share of the cores; short loops keep OpenMP's default, which spins
/// for milliseconds. GCC's OpenMP reads the setting from the environment when the program is
/// loaded, so the program starts itself once more, with the same arguments and process id.
/// OMP_WAIT_POLICY and GOMP_SPINCOUNT, by the user or by this restart, are left as they are. A run
/// spec with errors changes nothing: whoever reads it next reports them.
void limit_spinning(const std::string& config, const std::vector<std::string>& settings);

}  // namespace gptrain
