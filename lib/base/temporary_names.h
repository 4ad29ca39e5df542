// The names of the temporary files and folders that exist now, for a signal that ends the process.
#pragma once

#include <string>

namespace gptrain {

/// Call both while signals are deferred (DeferSignals).
void add_temporary_name(const std::string& name);
void drop_temporary_name(const std::string& name);

/// Removes the files of all names, and the folders with the files in them. For the signal handler,
/// while DeferSignals keeps others from changing the names.
void remove_temporary_files();
/// The same for std::terminate, which may be called in any state of the program.
void remove_unless_in_use();

}  // namespace gptrain
