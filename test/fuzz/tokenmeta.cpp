// PREFIX.meta.json, the record of how token files were made.
#include "data/token_meta.h"
#include "fuzz/target.h"

using namespace gptrain;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    TokenMeta meta;
    const auto read = [](std::string_view json) { return parse_token_meta(json, "a.meta.json"); };
    const bool accepted = test::accepts(
        ExitCode::bad_input, "a.meta.json:", [&] { meta = read(test::as_text(bytes, size)); });
    if (!accepted) return 0;
    GPTRAIN_CHECK(read(to_text(meta)) == meta);
    GPTRAIN_CHECK(meta.documents >= 0 && meta.tokens >= 0 && meta.vocab_size >= 0);
    for (const unsigned char c : describe(meta))
        GPTRAIN_CHECK(c >= 32 && c != 127);
    return 0;
}
