// A tokenizer.json: parsed and, if it is accepted, used and written.
#include "fuzz/target.h"
#include "fuzz/used_tokenizer.h"
#include "tokenizer/tokenizer_json.h"

using namespace gptrain;

namespace {

/// The merged pieces are what the merges say, whatever the file: bytes in, the same bytes out.
void check_written(const TokenizerDescription& description, const Tokenizer& tokenizer) {
    if (description.splitters.size() != 1 || description.splitters[0] > Splitter::qwen2) return;
    const Tokenizer again(to_tokenizer_json(description), "written");
    GPTRAIN_CHECK(again.vocab_size() == tokenizer.vocab_size());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::string json = "{" + std::string(test::as_text(bytes, size));
    const std::string_view whole = std::string_view(json).substr(json.starts_with("{{") ? 1 : 0);
    test::accepts(ExitCode::bad_input, "tokenizer.json:", [&] {
        const Tokenizer tokenizer(whole, "tokenizer.json");
        test::use_tokenizer(tokenizer);
        test::check_encoding(tokenizer, whole);
        check_written(parse_tokenizer_json(whole, "tokenizer.json"), tokenizer);
    });
    return 0;
}
