// The columns of a Parquet file: a tree whose leaves have the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parquet/thrift_reader.h"

namespace gptrain {

enum class ParquetType { boolean, int32, int64, int96, float32, float64, byte_array, fixed };

/// A node of the tree. Its levels are those of Dremel: a value in the column of a leaf has a
/// definition, the number of nodes on its path that may be absent and are there, and a repetition,
/// the number of repeated nodes on its path of which it continues the list (0: it begins a row).
struct ParquetNode {
    enum class Repetition { required, optional, repeated };

    std::string name;
    std::string path;  ///< from the top, with dots: "messages.list.element.role"
    Repetition repetition = Repetition::required;
    std::optional<ParquetType> type;  ///< of a leaf
    bool is_list = false;             ///< marked as a list or map: its only child is repeated
    bool is_unsigned = false;         ///< integers
    std::string unread;               ///< why values of this leaf are not read; empty: they are
    int definition = 0;               ///< that of a value at which this node is there
    int repeats = 0;                  ///< repeated nodes on its path, itself included
    std::size_t first_leaf = 0;       ///< leaves are counted in the order of the file
    std::size_t leaves = 1;
    std::vector<ParquetNode> children;
};

/// Reads the list of schema elements, depth first. Returns the root, whose children are the
/// columns. Error (bad_input), without a place: no tree, no column, or nested too deeply.
ParquetNode read_parquet_schema(ThriftReader& reader, const ThriftField& field);

/// The leaves in order.
std::vector<const ParquetNode*> leaves_of(const ParquetNode& root);

}  // namespace gptrain
