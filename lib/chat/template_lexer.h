// The tokens of a chat template, in Jinja's syntax as transformers sets it up: the newline after a
// block is dropped, and so is the white space before it on its line (trim_blocks, lstrip_blocks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gptrain {

struct TemplateToken {
    enum class Kind {
        text,          ///< between blocks
        open_output,   ///< {{
        close_output,  ///< }}
        open_block,    ///< {%
        close_block,   ///< %}
        name,
        string,  ///< without quotes and escapes
        integer,
        real,
        symbol,
        end,
    };
    Kind kind = Kind::end;
    std::string text;
    std::int64_t line = 1;
};

/// Ends with a token `end`. Error (bad_input) that names `source` and the line: an unknown
/// character, a string, block or comment without its end, a number of another form.
std::vector<TemplateToken> template_tokens(std::string_view text, const std::string& source);

}  // namespace gptrain
