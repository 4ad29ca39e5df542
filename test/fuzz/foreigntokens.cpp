// Token files of other trainers, with and without a header.
#include "data/foreign_tokens.h"
#include "fuzz/target.h"
#include "support/temp_folder.h"

using namespace gptrain;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    const auto file = folder / "a.bin";
    test::fill(file, test::as_text(bytes, size));
    for (const std::optional<int> raw :
         {std::optional<int>(), std::optional(2), std::optional(4)}) {
        test::accepts(ExitCode::bad_input, file.string(), [&] {
            const ForeignTokens tokens(file, raw);
            const std::size_t least = raw ? 0 : 1024;
            GPTRAIN_CHECK(least + 2 * static_cast<std::size_t>(tokens.size()) <= size);
            for (std::int64_t i = 0; i < tokens.size(); ++i)
                GPTRAIN_CHECK(tokens.at(i) <= 0xFFFF || raw != 2);
        });
    }
    return 0;
}
