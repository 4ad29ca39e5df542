// Output for people. One call prints one whole line, in one write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"

namespace gptrain {

/// From now on `print` is silent in this process, as on all ranks except 0. `warn` is not: guard it
/// where all ranks would warn alike.
void silence_stdout();
/// True if silence_stdout() was called.
bool stdout_silenced();

/// From now on lines and raw bytes for people go to stderr, because stdout takes an output
/// (write_stdout).
void free_stdout();
/// True if free_stdout() was called.
bool stdout_freed();
/// Writes an output to stdout, to a terminal without_controls. A failed write is an Error (io).
void write_stdout(std::string_view bytes);

/// Prints a line to stdout: results and progress. A terminal gets it without_controls: the text of
/// a model or a file must not set its title, fill its clipboard or move its cursor. A pipe or a
/// file gets it unchanged. terminal.h has the escape sequences of the program's own.
void print_line(std::string_view line);
/// Throws an Error (io) if stdout failed to take a line; call it at the end of a program, whose
/// output is then incomplete. A closed pipe does not count: its reader wanted no more.
void check_output();
/// Writes bytes to stdout, as print_line does but for the line end. A failed write is an Error
/// (io).
void print_raw(std::string_view bytes);
/// Prints "warning: ..." to stderr, without_controls.
void warn_line(std::string_view line);
/// Prints "PROGRAM: error: ..." to stderr, the one line of a failed program, without_controls and
/// with line ends replaced by spaces.
void error_line(std::string_view program, std::string_view message);

/// Shows control characters except line feeds and tabs, so that a text cannot control the reader's
/// terminal: as \x1b, of U+0080 to U+009F as \u009b. The same goes for bytes that are not UTF-8,
/// which another write might complete.
std::string without_controls(std::string_view text);

void print(const auto&... parts) {
    print_line(text(parts...));
}

void warn(const auto&... parts) {
    warn_line(text(parts...));
}

/// From now on stdout does not count as a terminal: mpirun gives ranks a pseudo-terminal, wherever
/// their output goes.
void disable_terminal_output();
/// True if stdout is a terminal.
bool stdout_is_terminal();
/// True if stdout is a terminal that can show colours: TERM is set, and not to "dumb", and NO_COLOR
/// is not set (https://no-color.org).
bool stdout_shows_colours();
/// The width of that terminal now: its own answer, else COLUMNS, else 80.
std::int64_t terminal_columns();

/// The terminal's height: as it reports it, else $LINES, else 24.
std::int64_t terminal_rows();
/// True if stdout is a terminal that can move the cursor: TERM is set, and not to "dumb".
bool stdout_moves_cursor();

/// Rewrites the terminal's current line; an empty text clears it. The line is cut before the last
/// column, so that it never wraps. Does nothing unless stdout is a terminal that can clear a line
/// (TERM is set, and not to "dumb").
void show_status(std::string_view line);

}  // namespace gptrain
