// A tokenizer.json: parsed and, if it is accepted, used and written.
#include <vector>

#include "fuzz/target.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

using namespace gptrain;

namespace {

void use(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(text, ids);
    for (const std::int32_t id : ids)
        GPTRAIN_CHECK(id >= 0 && id < tokenizer.vocab_size(), id);
    GPTRAIN_CHECK(find_invalid_utf8(tokenizer.decode(ids)) == std::string_view::npos);
}

/// The merged pieces are what the merges say, whatever the file: bytes in, the same bytes out.
void check_written(const BpeDescription& description, const Tokenizer& tokenizer) {
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
        use(tokenizer, "the  thin\n\xEF\xBD\xB1 \xE2\x84\xAB e\xCC\x81 1234 it's <|endoftext|>");
        use(tokenizer, whole);
        check_written(parse_tokenizer_json(whole, "tokenizer.json"), tokenizer);
        std::vector<std::int32_t> every;
        for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
            every.push_back(id);
        GPTRAIN_CHECK(find_invalid_utf8(tokenizer.decode(every)) == std::string_view::npos);
    });
    return 0;
}
