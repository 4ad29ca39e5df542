// Lines for people. One call is one whole line, written at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"

namespace gptrain {

/// From now on this process says nothing on stdout; warnings and errors stay. For the ranks that
/// would only repeat what the first says.
void silence();
/// Whether it was silenced.
bool silenced();

/// A line on stdout: results and progress.
void print_line(std::string_view line);
/// Throws an Error (io) if stdout has failed to take a line, for the end of a program that reached
/// its end: its output is not whole. A reader that went away has lost nothing that it wanted.
void check_output();
/// Bytes on stdout as they are. A stdout that takes no more is an Error (io).
void print_raw(std::string_view bytes);
/// "warning: ..." on stderr. Control characters in it become blanks.
void warn_line(std::string_view line);
/// "PROGRAM: error: ..." on stderr: the one line of a program that failed. Line ends and
/// other control characters inside the message become blanks.
void error_line(std::string_view program, std::string_view message);

/// The text with a blank for each control character but line ends: what a file says must not steer
/// the reader's terminal.
std::string without_controls(std::string_view text);

template <class... Parts>
void print(const Parts&... parts) {
    print_line(text(parts...));
}

template <class... Parts>
void warn(const Parts&... parts) {
    warn_line(text(parts...));
}

/// From now on stdout is no terminal, whatever it looks like: mpirun gives ranks a pseudo-terminal,
/// wherever their lines go.
void plain_output();
/// Whether stdout is a terminal.
bool stdout_is_terminal();
/// How wide that terminal is now: what it says itself, else COLUMNS, else 80.
std::int64_t terminal_columns();

/// Rewrites the terminal's current line; an empty text clears it. What would reach the last column
/// is cut off, so that no line wraps. Does nothing unless stdout is a terminal that can clear a
/// line (TERM is set, and not to "dumb").
void show_status(std::string_view line);

}  // namespace gptrain
