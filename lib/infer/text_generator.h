// Writes texts with a trained model: tokens into text, up to where a text ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infer/generator.h"
#include "infer/positions.h"
#include "infer/prompt_codec.h"
#include "infer/sampler.h"

namespace gptrain {

struct WriteOptions {
    std::int64_t max_tokens = 100;
    SamplingOptions sampling;
    std::vector<std::string> stop;  ///< texts before which the output ends, none of them empty
};

/// Who reads the output.
struct Reader {
    /// Receives each piece of output as soon as it is known, in whole characters.
    std::function<void(std::string_view)> show;
    /// Asked after each token; true ends the text. May be empty.
    std::function<bool()> enough;
};

enum class TextEnd {
    max_tokens,
    end_token,  ///< the model ended the text
    stop_text,
    last_position,  ///< no room for more tokens
    enough,         ///< Reader::enough
};

/// The tokens that a generator has room for.
struct TextRoom {
    std::int64_t positions = 0;  ///< of prompt and output together
    std::int64_t prompt = 0;     ///< part of them that is given
    std::string_view option;     ///< the command line's that sets the rest
    bool copies = false;         ///< each data-parallel copy of the model writes its own text
};

/// True if ranks of cp, or of tp with sequence parallelism, share each sequence. A cache of keys
/// and values needs whole ones.
bool shares_sequences(const RunPlan& plan);

/// Error (usage) if the mesh has context or sequence parallelism, or, unless `copies` are allowed,
/// more than one copy of the model.
void check_mesh(const RunPlan& plan, std::string_view command, bool copies = false);

class TextGenerator {
public:
    /// All ranks construct and call it together. Error (usage) if the mesh or the memory does not
    /// allow it; the error names the largest value of `room.option` that fits.
    TextGenerator(const InferenceRun& run, const PromptCodec& codec, const TextRoom& room);

    /// Tokens of a text, without virtual ones.
    std::int64_t most_tokens() const { return plan_.seq_length - plan_.model.virtual_tokens(); }

    /// Writes what follows `prompt`, which has 1 to most_tokens() tokens. The start that it shares
    /// with the previous text is not computed again. `place`: of the first token.
    TextEnd write(std::span<const std::int32_t> prompt, PromptCodec::Decoder decoder,
                  const WriteOptions& options, DrawPlace place, const Reader& reader);

    /// Warns once, on rank 0, if the last text is longer than those that the model was trained for.
    void warn_of_length();

private:
    /// Brings the model's sequence to all of the prompt except its last token.
    void read(std::span<const std::int32_t> prompt);

    const InferenceRun& run_;
    const PromptCodec& codec_;
    RunPlan plan_;
    std::optional<Generator> generator_;
    std::vector<std::int32_t> text_;  ///< prompt and output of the last text
    bool has_warned_ = false;
};

}  // namespace gptrain
