#include "parquet/parquet_schema.h"

#include <span>

#include "base/text.h"

namespace gptrain {
namespace {

// JSON lines may be nested 64 levels deep.
constexpr int max_schema_depth = 60;
constexpr std::size_t max_nodes = 10000;
constexpr std::size_t max_path_bytes = 4096;

// Converted types that change how a value is read, and the ids of such logical types.
constexpr std::int64_t converted_map = 1;
constexpr std::int64_t converted_key_value = 2;
constexpr std::int64_t converted_list = 3;
constexpr std::int64_t converted_decimal = 5;
constexpr std::int64_t converted_uint8 = 11;
constexpr std::int64_t converted_uint64 = 14;
constexpr std::int64_t logical_map = 2;
constexpr std::int64_t logical_list = 3;
constexpr std::int64_t logical_decimal = 5;

/// As in the file.
struct Element {
    std::optional<std::int64_t> type;
    std::int64_t repetition = 0;
    std::string name;
    std::int64_t children = 0;
    std::optional<std::int64_t> converted;
    std::int64_t logical = 0;  // the id of the logical type's field
};

Element read_element(ThriftReader& reader, const ThriftField& field) {
    Element element;
    reader.structure(field, [&](const ThriftField& member) {
        switch (member.id) {
            case 1: element.type = reader.integer(member); break;
            case 3: element.repetition = reader.integer(member); break;
            case 4: element.name = reader.binary(member); break;
            case 5: element.children = reader.integer(member); break;
            case 6: element.converted = reader.integer(member); break;
            case 10:
                reader.structure(member, [&](const ThriftField& kind) {
                    element.logical = kind.id;
                    reader.skip(kind);
                });
                break;
            default: reader.skip(member);
        }
    });
    return element;
}

[[noreturn]] void refuse_schema(const auto&... parts) {
    fail(ExitCode::bad_input, "damaged schema: ", parts...);
}

/// Why the values of a leaf are not read.
std::string unread_values(ParquetType type, bool is_decimal) {
    if (is_decimal) return "decimal numbers are not read";
    if (type == ParquetType::int96) return "the type INT96 is not read";
    if (type == ParquetType::fixed) return "the type FIXED_LEN_BYTE_ARRAY is not read";
    return "";
}

class Tree {
public:
    explicit Tree(std::span<const Element> elements) : elements_(elements) {}

    ParquetNode build() {
        if (elements_.empty()) refuse_schema("it is empty");
        ParquetNode root = node(nullptr, 0);
        if (next_ != elements_.size()) refuse_schema("it has more elements than its tree");
        return root;
    }

private:
    ParquetNode node(const ParquetNode* parent, int depth) {
        if (depth > max_schema_depth)
            refuse_schema("nested deeper than ", max_schema_depth, " levels");
        if (next_ == elements_.size()) refuse_schema("an element is missing");
        const Element& element = elements_[next_++];
        ParquetNode node = begin(element, parent);
        if (element.children < 0) refuse_schema("a negative number of children");
        if (element.children == 0) {
            add_leaf(element, parent, node);
            return node;
        }
        node.first_leaf = leaves_;
        for (std::int64_t i = 0; i < element.children; ++i)
            node.children.push_back(this->node(&node, depth + 1));
        node.leaves = leaves_ - node.first_leaf;
        const bool marked = element.converted == converted_map ||
                            element.converted == converted_key_value ||
                            element.converted == converted_list || element.logical == logical_map ||
                            element.logical == logical_list;
        node.is_list = marked && node.children.size() == 1 &&
                       node.children[0].repetition == ParquetNode::Repetition::repeated;
        return node;
    }

    static ParquetNode begin(const Element& element, const ParquetNode* parent) {
        using enum ParquetNode::Repetition;
        ParquetNode node;
        node.name = element.name;
        if (parent == nullptr) return node;  // the root has no levels
        if (element.repetition < 0 || element.repetition > 2)
            refuse_schema("an unknown repetition");
        node.repetition = static_cast<ParquetNode::Repetition>(element.repetition);
        node.path = parent->path.empty() ? node.name : text(parent->path, ".", node.name);
        if (node.path.size() > max_path_bytes)
            refuse_schema("a column's name has more than ", max_path_bytes, " bytes");
        node.definition = parent->definition + (node.repetition == required ? 0 : 1);
        node.repeats = parent->repeats + (node.repetition == repeated ? 1 : 0);
        return node;
    }

    void add_leaf(const Element& element, const ParquetNode* parent, ParquetNode& node) {
        if (parent == nullptr) refuse_schema("it has no column");
        if (!element.type) refuse_schema("the column ", node.path, " has no type");
        if (*element.type < 0 || *element.type > static_cast<int>(ParquetType::fixed))
            refuse_schema("the column ", node.path, " has an unknown type");
        node.type = static_cast<ParquetType>(*element.type);
        node.first_leaf = leaves_++;
        const bool is_decimal =
            element.converted == converted_decimal || element.logical == logical_decimal;
        node.unread = unread_values(*node.type, is_decimal);
        node.is_unsigned = element.converted && *element.converted >= converted_uint8 &&
                           *element.converted <= converted_uint64;
    }

    std::span<const Element> elements_;
    std::size_t next_ = 0;
    std::size_t leaves_ = 0;
};

void add_leaves(const ParquetNode& node, std::vector<const ParquetNode*>& leaves) {
    if (node.type) leaves.push_back(&node);
    for (const ParquetNode& child : node.children)
        add_leaves(child, leaves);
}

}  // namespace

ParquetNode read_parquet_schema(ThriftReader& reader, const ThriftField& field) {
    std::vector<Element> elements;
    reader.list(field, [&](const ThriftField& element) {
        if (elements.size() == max_nodes) refuse_schema("more than ", max_nodes, " elements");
        elements.push_back(read_element(reader, element));
    });
    return Tree(elements).build();
}

std::vector<const ParquetNode*> leaves_of(const ParquetNode& root) {
    std::vector<const ParquetNode*> leaves;
    add_leaves(root, leaves);
    return leaves;
}

}  // namespace gptrain
