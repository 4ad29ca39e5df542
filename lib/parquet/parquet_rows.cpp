#include "parquet/parquet_rows.h"

#include <cmath>
#include <span>
#include <variant>

#include "base/at.h"
#include "base/error.h"
#include "base/text.h"

namespace gptrain {
namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 20;
constexpr std::string_view misfit = "its levels do not fit those of the columns next to it";

void append_json_text(std::string_view value, std::string& out) {
    constexpr std::string_view digits = "0123456789abcdef";
    out += '"';
    while (true) {
        std::size_t plain = 0;
        while (plain < value.size() && static_cast<unsigned char>(value[plain]) >= 0x20 &&
               value[plain] != '"' && value[plain] != '\\')
            ++plain;
        out += value.substr(0, plain);
        if (plain == value.size()) break;
        const char special = value[plain];
        if (special == '"' || special == '\\') {
            out += {'\\', special};
        } else {
            const auto code = static_cast<unsigned char>(special);
            out += {'\\', 'u', '0', '0', at(digits, code >> 4), at(digits, code & 15)};
        }
        value.remove_prefix(plain + 1);
    }
    out += '"';
}

void append_json_number(double value, std::string& out) {
    if (!std::isfinite(value))
        return append(out, std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
    const std::size_t begin = out.size();
    append(out, value);
    if (out.find_first_of(".e", begin) == std::string::npos) append(out, ".0");
}

void append_json_number(std::int64_t value, const ParquetNode& leaf, std::string& out) {
    if (!leaf.is_unsigned) return append(out, value);
    if (leaf.type == ParquetType::int32) return append(out, static_cast<std::uint32_t>(value));
    append(out, static_cast<std::uint64_t>(value));
}

void append_value(const ParquetValue& value, const ParquetNode& leaf, std::string& out) {
    if (const auto* words = std::get_if<std::string_view>(&value)) {
        append_json_text(*words, out);
    } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        append_json_number(*integer, leaf, out);
    } else if (const auto* real = std::get_if<double>(&value)) {
        append_json_number(*real, out);
    } else {
        append(out, std::get<bool>(value));
    }
}

/// True if a repeated node is a list's element itself, in the forms that old writers have, instead
/// of holding it.
bool is_element(const ParquetNode& repeated, const ParquetNode& list) {
    return repeated.children.size() != 1 || repeated.name == "array" ||
           repeated.name == list.name + "_tuple";
}

}  // namespace

ParquetRows::ParquetRows(const ParquetFile& file, const ParquetNode* text, ParquetGroups groups)
    : file_(file), text_(text), groups_(groups) {}

void ParquetRows::open_group() {
    const std::size_t index = groups_.begin++;
    const ParquetRowGroup& group = file_.metadata().groups[index];
    columns_.clear();
    const auto open = [&](const ParquetNode& leaf) {
        columns_.emplace_back(ParquetColumnSource{file_.path(), file_.bytes(), leaf, group, index});
    };
    if (text_ != nullptr) {
        open(*text_);
    } else {
        for (const ParquetNode* leaf : leaves_of(file_.root()))
            open(*leaf);
    }
    rows_left_ = group.rows;
    row_ = group.first_row - 1;
}

bool ParquetRows::next() {
    if (text_ != nullptr && !columns_.empty() && !columns_[0].ended()) columns_[0].advance();
    while (rows_left_ == 0) {
        for (const ParquetColumn& column : columns_) {
            if (!column.ended()) column.refuse("it has more rows than its row group");
        }
        if (groups_.begin == groups_.end) return false;
        open_group();
    }
    --rows_left_;
    ++row_;
    for (const ParquetColumn& column : columns_) {
        if (column.ended()) column.refuse("it has fewer rows than its row group");
        if (column.repetition() != 0) column.refuse(misfit);
    }
    return true;
}

std::optional<std::string_view> ParquetRows::take_text() {
    ParquetColumn& column = columns_[0];
    if (!column.has_value()) return std::nullopt;
    return std::get<std::string_view>(column.take());
}

void ParquetRows::append_json(std::string& out, std::size_t most) {
    most_bytes_ = most;
    elements_ = 0;
    append_object(file_.root(), out);
}

ParquetColumn& ParquetRows::first_column(const ParquetNode& node) {
    return columns_[node.first_leaf];
}

void ParquetRows::append_object(const ParquetNode& node, std::string& out) {
    char before = '{';
    for (const ParquetNode& child : node.children) {
        out += before;
        append_json_text(child.name, out);
        out += ':';
        append_node(child, out);
        before = ',';
    }
    out += '}';
}

void ParquetRows::append_node(const ParquetNode& node, std::string& out) {
    if (node.repetition == ParquetNode::Repetition::repeated) return append_list(node, node, out);
    if (first_column(node).definition() < node.definition) {
        skip_absent(node);
        append(out, "null");
    } else {
        append_present(node, out);
    }
}

void ParquetRows::append_present(const ParquetNode& node, std::string& out) {
    if (node.is_list) return append_list(node.children[0], node, out);
    if (!node.type) return append_object(node, out);
    ParquetColumn& column = first_column(node);
    if (!column.has_value()) column.refuse(misfit);
    append_value(column.take(), node, out);
    column.advance();
}

void ParquetRows::append_list(const ParquetNode& repeated, const ParquetNode& list,
                              std::string& out) {
    if (first_column(repeated).definition() < repeated.definition) {
        skip_absent(repeated);
        append(out, "[]");
        return;
    }
    char before = '[';
    do {
        if (++elements_ > most_elements)
            first_column(repeated).refuse("the row has more than a million elements in lists");
        // A few bytes of a file can stand for many.
        if (out.size() > most_bytes_) out.resize(most_bytes_ + 1);
        out += before;
        if (&repeated != &list && !is_element(repeated, list)) {
            append_node(repeated.children[0], out);
        } else {
            append_present(repeated, out);
        }
        before = ',';
    } while (continues(repeated));
    out += ']';
}

bool ParquetRows::continues(const ParquetNode& repeated) {
    const bool more = first_column(repeated).repetition() == repeated.repeats;
    for (std::size_t i = 0; i < repeated.leaves; ++i) {
        const ParquetColumn& column = columns_[repeated.first_leaf + i];
        if ((column.repetition() == repeated.repeats) != more) column.refuse(misfit);
    }
    return more;
}

/// Moves on the columns of a node that is absent, or an empty list.
void ParquetRows::skip_absent(const ParquetNode& node) {
    const int definition = node.definition - 1;  // its parent is there
    for (std::size_t i = 0; i < node.leaves; ++i) {
        ParquetColumn& column = columns_[node.first_leaf + i];
        if (column.ended() || column.definition() != definition) column.refuse(misfit);
        column.advance();
    }
}

}  // namespace gptrain
