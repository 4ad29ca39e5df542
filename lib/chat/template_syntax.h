// The syntax tree of a chat template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/template_value.h"

namespace gptrain {

struct TemplateExpr {
    enum class Kind {
        literal,     ///< value
        name,        ///< name
        list,        ///< parts
        tuple,       ///< parts
        dict,        ///< keys: parts[2i], values: parts[2i + 1]
        attribute,   ///< parts[0].name
        index,       ///< parts[0][parts[1]]
        slice,       ///< parts[0][parts[1]:parts[2]:parts[3]], some null
        call,        ///< name(arguments)
        method,      ///< parts[0].name(arguments)
        filter,      ///< parts[0] | name(arguments); of a filtered block parts[0] is null
        test,        ///< parts[0] is name(arguments)
        operation,   ///< name, an operator of one or two parts
        text,        ///< parts[0] ~ parts[1] ~ ...
        comparison,  ///< parts[0] keywords[1] parts[1] keywords[2] parts[2] ...
        both,        ///< parts[0] and parts[1]
        either,      ///< parts[0] or parts[1]
        choice,      ///< parts[0] if parts[1] else parts[2], which may be null
    };
    Kind kind = Kind::literal;
    std::int64_t line = 1;
    std::string name;
    TemplateValue value;
    std::vector<std::unique_ptr<TemplateExpr>> parts;
    /// The keyword of each argument, empty without one; arguments are parts too.
    std::vector<std::string> keywords;
    std::int64_t depth = 1;  ///< of the tree
};

struct TemplateNode {
    enum class Kind {
        text,
        output,  ///< {{ expr }}
        branch,  ///< if, elif, else: conditions[i] (null: else) with bodies[i]
        loop,    ///< for names in expr if conditions[0] (or null): bodies[0], else bodies[1]
        set,     ///< names = expr; without it the printed bodies[0] | conditions[0] (or null)
        set_attribute,  ///< names[0].names[1] = expr
        with,           ///< names[i] = conditions[i], for bodies[0]
        macro,          ///< text is its name; names have the defaults conditions (or null)
        call_block,     ///< expr, a call; a macro's names, conditions and bodies are its caller
        filter_block,   ///< the printed bodies[0] | expr
        leave,          ///< break
        next,           ///< continue
        generation,     ///< bodies[0], which the assistant says ({% generation %})
    };
    Kind kind = Kind::text;
    std::int64_t line = 1;
    std::string text;
    std::vector<std::string> names;
    std::unique_ptr<TemplateExpr> expr;
    std::vector<std::unique_ptr<TemplateExpr>> conditions;
    std::vector<std::vector<TemplateNode>> bodies;
};

using TemplateBody = std::vector<TemplateNode>;

/// Error (bad_input) that names `source`, the line and the construct: a syntax error, or what is
/// outside of the subset (imports, blocks, recursive loops, ...). Expressions are at most 200 deep,
/// statements 64.
TemplateBody parse_template(std::string_view text, const std::string& source);

}  // namespace gptrain
