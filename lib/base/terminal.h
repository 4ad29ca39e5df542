// The program's own control of a terminal.
#pragma once

#include <string_view>

namespace gptrain {

/// Writes to stdout what contains escape sequences of the program's own, unchanged; print and
/// print_raw would show them. All other text in it must be without_controls. A failed write is an
/// Error (io).
void print_sequences(std::string_view bytes);

}  // namespace gptrain
