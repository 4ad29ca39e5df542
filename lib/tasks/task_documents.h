// The documents of a task's data files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tasks/task_spec.h"

namespace gptrain {

struct TaskDocument {
    Json fields;        ///< an object
    std::string place;  ///< "FILE:LINE", "FILE: row N" or, of a plain text read whole, "FILE"
};

/// The data file of a task.
struct TaskFile {
    std::filesystem::path path;
    PlainText documents = PlainText::whole;
    std::optional<std::filesystem::path> labels = {};
    std::string_view folder_key = {};  ///< what sets the folder, for errors
};

/// The first `limit` documents of a file, by default all: the objects of JSON lines
/// (named_json_lines), the rows of Parquet (named_parquet), or else the parts of a plain text, each
/// as the field `text`. Blank lines are no documents. Either may be compressed. Line i of the file
/// of labels is the field `label` of document i. Errors (bad_input) name file and line: bad JSON or
/// UTF-8, no document, another number of labels; a device or pipe, which need not end.
std::vector<TaskDocument> read_task_documents(const TaskFile& file,
                                              std::optional<std::int64_t> limit);

}  // namespace gptrain
