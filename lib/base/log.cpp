#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/terminal.h"
#include "base/utf8.h"

namespace gptrain {
namespace {

std::mutex& output_mutex() {
    static std::mutex mutex;
    return mutex;
}

/// Returns true if everything was written. Lines for people may be lost: a closed pipe must not end
/// a training run.
bool write_whole(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

bool status_shown = false;
std::atomic<bool> silent = false;  // also read by signal handlers
std::atomic<int> text_descriptor = STDOUT_FILENO;
bool plain = false;
int stdout_error = 0;  // errno of the first failed line

bool is_dumb_terminal() {
    const char* kind = std::getenv("TERM");
    return kind == nullptr || std::string_view(kind).empty() || std::string_view(kind) == "dumb";
}

/// The terminal's own answer, else an environment variable's, else the usual.
std::int64_t terminal_size(unsigned short winsize::*side, const char* name, std::int64_t usual) {
    struct winsize size {};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.*side > 0) return size.*side;
    const char* variable = std::getenv(name);
    const auto count = parse_int(variable != nullptr ? variable : "");
    return count && *count > 0 ? *count : usual;
}

/// True if one valid character is a control character: C0 but for line feed and tab, DEL, and C1
/// (U+0080 to U+009F).
bool is_control(std::string_view character) {
    const auto first = static_cast<unsigned char>(character.front());
    if (character.size() == 1)
        return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
    return character.size() == 2 && first == 0xC2 &&
           static_cast<unsigned char>(character.back()) < 0xA0;
}

/// "1b"
std::string hex_byte(char byte) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    return {digits[value >> 4], digits[value & 15]};
}

constexpr std::string_view clear_line = "\r\x1b[K";

/// The text as stdout gets it: a terminal must not obey what a model or a file says.
std::string shown(std::string_view text) {
    return stdout_is_terminal() || stdout_freed() ? without_controls(text) : std::string(text);
}

void write_line(int descriptor, std::string_view prefix, std::string_view line) {
    const std::lock_guard lock(output_mutex());
    if (status_shown) write_whole(STDOUT_FILENO, clear_line);
    status_shown = false;
    if (write_whole(descriptor, text(prefix, line, "\n"))) return;
    if (descriptor == STDOUT_FILENO && stdout_error == 0 && errno != EPIPE) stdout_error = errno;
}

void write_raw(int descriptor, std::string_view bytes) {
    const std::lock_guard lock(output_mutex());
    if (write_whole(descriptor, bytes)) return;
    fail_errno(errno, descriptor == STDOUT_FILENO ? "stdout" : "stderr");
}

}  // namespace

void silence_stdout() {
    silent = true;
}

bool stdout_silenced() {
    return silent;
}

void free_stdout() {
    text_descriptor = STDERR_FILENO;
}

bool stdout_freed() {
    return text_descriptor != STDOUT_FILENO;
}

std::string without_controls(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const Utf8Step step = utf8_step(text);
        const std::string_view part = text.substr(0, step.bytes);
        text.remove_prefix(step.bytes);
        const bool is_valid = step.kind == Utf8::valid;
        if (is_valid && !is_control(part)) {
            out += part;
        } else if (is_valid && part.size() == 2) {
            append(out, gptrain::text("\\u00", hex_byte(part.back())));
        } else {
            for (const char byte : part)
                append(out, gptrain::text("\\x", hex_byte(byte)));
        }
    }
    return out;
}

void print_line(std::string_view line) {
    if (!silent) write_line(text_descriptor, "", shown(line));
}

void check_output() {
    const std::lock_guard lock(output_mutex());
    if (stdout_error != 0) fail_errno(stdout_error, "stdout");
}

void print_raw(std::string_view bytes) {
    print_sequences(shown(bytes));
}

void print_sequences(std::string_view bytes) {
    if (silent) return;
    write_raw(text_descriptor, bytes);
}

void write_stdout(std::string_view bytes) {
    write_raw(STDOUT_FILENO, stdout_is_terminal() ? without_controls(bytes) : std::string(bytes));
}

void warn_line(std::string_view line) {
    write_line(STDERR_FILENO, "warning: ", without_controls(line));
}

void error_line(std::string_view program, std::string_view message) {
    std::string line = without_controls(message);
    std::replace(line.begin(), line.end(), '\n', ' ');
    write_line(STDERR_FILENO, text(program, ": error: "), line);
}

void disable_terminal_output() {
    const std::lock_guard lock(output_mutex());
    plain = true;
}

bool stdout_is_terminal() {
    static const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
    return is_terminal && !plain;
}

bool stdout_shows_colours() {
    const char* refused = std::getenv("NO_COLOR");
    const bool allowed = refused == nullptr || std::string_view(refused).empty();
    return allowed && stdout_moves_cursor();
}

std::int64_t terminal_columns() {
    return terminal_size(&winsize::ws_col, "COLUMNS", 80);
}

std::int64_t terminal_rows() {
    return terminal_size(&winsize::ws_row, "LINES", 24);
}

bool stdout_moves_cursor() {
    return stdout_is_terminal() && !is_dumb_terminal();
}

void show_status(std::string_view line) {
    if (silent || !stdout_moves_cursor()) return;
    const std::lock_guard lock(output_mutex());
    const auto width = static_cast<std::size_t>(terminal_columns() - 1);
    write_whole(STDOUT_FILENO, text(clear_line, without_controls(line).substr(0, width)));
    status_shown = !line.empty();
}

}  // namespace gptrain
