// Files that a user names for a command to write: `--output FILE` and the like.
//
// "-" is stdout. A device or a FIFO is written into, a symbolic link is followed. A plain file is
// replaced as a whole, by a new file with its mode and owner; one with several hard links, or whose
// folder or owner does not allow that, is rewritten in place.
#pragma once

#include <filesystem>
#include <string_view>

namespace gptrain {

/// True of "-".
bool is_stdout(const std::filesystem::path& path);

/// Error (usage) that names `option` for "-": the program reads back what it writes there.
void refuse_stdout(const std::filesystem::path& path, std::string_view option);

/// Call it for each output of a command, once the inputs are read and before the work begins. Error
/// that names `option` if the path is a folder or has none (usage), is a file that this process has
/// read (usage), or may not be written (io). With "-" other text goes to stderr from now on; a
/// second "-" is an Error (usage). An empty path is no output.
void check_output_file(const std::filesystem::path& path, std::string_view option);

/// The folder in which the output is or becomes a file; the current one for stdout and devices.
std::filesystem::path folder_of_output(const std::filesystem::path& path);

/// Writes the file; what it says is durable on return. Failure is an Error (io), a file that this
/// process has read an Error (usage).
void write_output_file(const std::filesystem::path& path, std::string_view bytes);

/// The same for a file that is written again and again: without waiting for the disk, so that a
/// crash of the machine may damage it, and without waiting for the reader of a FIFO, which is an
/// Error (io).
void refresh_output_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace gptrain
