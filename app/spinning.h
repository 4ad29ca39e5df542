// How threads wait for each other between parallel loops.
#pragma once

#include <string>
#include <vector>

namespace gptrain {

/// If the run's loops are long, makes waiting threads sleep soon, so that training keeps its share
/// of the cores next to another program. Short loops keep OpenMP's default, which spins for
/// milliseconds. GCC's OpenMP reads the setting from the environment when the program is loaded, so
/// the program restarts itself once, with the same arguments and process id. Keeps OMP_WAIT_POLICY
/// and GOMP_SPINCOUNT if set, whether by the user or by this restart. Does nothing if the run spec
/// has errors: its next reader reports them.
void limit_spinning(const std::string& config, const std::vector<std::string>& settings);

}  // namespace gptrain
