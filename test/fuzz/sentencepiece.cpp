// A sentencepiece model: checked, loaded by the library if it passes, and used.
#include <vector>

#include "base/utf8.h"
#include "fuzz/target.h"
#include "tokenizer/marked_text.h"
#include "tokenizer/tokenizer.h"

using namespace gptrain;

namespace {

void use(const Tokenizer& tokenizer, std::string_view text) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(text, ids);
    for (const std::int32_t id : ids)
        GPTRAIN_CHECK(id >= 0 && id < tokenizer.vocab_size(), id);
    GPTRAIN_CHECK(find_invalid_utf8(tokenizer.decode(ids)) == std::string_view::npos);
    const LocatedIds marked = MarkedEncoder(tokenizer, Json::object(), "config").encode(text);
    GPTRAIN_CHECK(marked.begins.size() == marked.ids.size());
    for (const std::int32_t id : marked.ids)
        GPTRAIN_CHECK(id >= 0 && id < tokenizer.vocab_size(), id);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::string_view model = test::as_text(bytes, size);
    // Input that begins like JSON is read as tokenizer.json, whose errors name a line.
    test::accepts(ExitCode::bad_input, "tokenizer.model:", [&] {
        const Tokenizer tokenizer(model, "tokenizer.model");
        use(tokenizer, "he that hath  an ear,\n \xEF\xBD\xB1 \xE2\x84\xAB \xE3\x88\xB1 let");
        // The input contains the model's own pieces.
        if (find_invalid_utf8(model) == std::string_view::npos) use(tokenizer, model);
        std::vector<std::int32_t> every;
        for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
            every.push_back(id);
        GPTRAIN_CHECK(find_invalid_utf8(tokenizer.decode(every)) == std::string_view::npos);
    });
    return 0;
}
