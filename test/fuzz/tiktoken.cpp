// A file of tiktoken: converted and, if it is accepted, used. Real files have too many ranks to
// fuzz, so any number stands for GPT-2's.
#include "fuzz/target.h"
#include "fuzz/used_tokenizer.h"
#include "tokenizer/tokenizer_files.h"

using namespace gptrain;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::string_view ranks = test::as_text(bytes, size);
    is_tiktoken(ranks);
    test::accepts(ExitCode::bad_input, "ranks:", [&] { convert_tiktoken(ranks, "ranks"); });
    const TiktokenFamily family = {Splitter::gpt2, false, {"<|endoftext|>"}};
    test::accepts(ExitCode::bad_input, "ranks:", [&] {
        test::use_tokenizer(Tokenizer(convert_tiktoken(ranks, "ranks", family), "ranks"));
    });
    return 0;
}
