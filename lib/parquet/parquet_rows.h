// The rows of a Parquet file, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "parquet/parquet_column.h"
#include "parquet/parquet_file.h"

namespace gptrain {

/// Row groups [begin, end).
struct ParquetGroups {
    std::size_t begin = 0;
    std::size_t end = 0;
};

/// Reads the texts of one column, or whole rows. Holds a page of each column that it reads. Errors
/// (bad_input): those of ParquetColumn, columns whose lists do not fit each other, and more than a
/// million elements in the lists of a row.
class ParquetRows {
public:
    /// `text`: the column of texts, or null for whole rows. The file must outlive the rows.
    ParquetRows(const ParquetFile& file, const ParquetNode* text, ParquetGroups groups);

    /// Moves to the next row, also to the first; false behind the last. Before, `take_text` or
    /// `append_json` must have read the row.
    bool next();
    /// The row's number, from 0.
    std::int64_t row() const { return row_; }
    /// The text, valid until `next`; nothing for a null.
    std::optional<std::string_view> take_text();
    /// Appends the row as a JSON object: a null for what is missing, a list for lists and maps, an
    /// object for structs. Texts are written with the bytes that they have, UTF-8 or not. Of a row
    /// longer than `most` bytes only so many need be right, but more than these are appended.
    void append_json(std::string& out, std::size_t most);

private:
    void open_group();
    ParquetColumn& first_column(const ParquetNode& node);
    void append_object(const ParquetNode& node, std::string& out);
    void append_node(const ParquetNode& node, std::string& out);
    void append_present(const ParquetNode& node, std::string& out);
    void append_list(const ParquetNode& repeated, const ParquetNode& list, std::string& out);
    bool continues(const ParquetNode& repeated);
    void skip_absent(const ParquetNode& node);

    const ParquetFile& file_;
    const ParquetNode* text_;
    ParquetGroups groups_;
    std::deque<ParquetColumn> columns_;  ///< of the row group: the text's, or all
    std::int64_t rows_left_ = 0;         ///< in the row group
    std::int64_t row_ = -1;
    std::size_t most_bytes_ = 0;  ///< of the row as JSON
    std::int64_t elements_ = 0;   ///< of the row's lists
};

}  // namespace gptrain
