// The card of a data set, its patterns, and splits in names.
#include "fuzz/target.h"
#include "support/temp_folder.h"
#include "text/data_card.h"

using namespace gptrain;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    const auto card = folder / "README.md";
    const std::string_view text = test::as_text(bytes, size);
    test::fill(card, text);
    std::vector<CardSubset> subsets;
    test::accepts(ExitCode::bad_input, card.string(), [&] { subsets = read_data_card(card); });
    for (const CardSubset& subset : subsets) {
        for (const CardSplit& split : subset.splits) {
            for (const std::string& pattern : split.patterns)
                matches_pattern("data/A/train-00000-of-00001.parquet", pattern);
        }
    }
    const std::size_t half = size / 2;
    GPTRAIN_CHECK(matches_pattern("", "**") && matches_pattern(text.substr(0, half), "**"));
    matches_pattern(text.substr(0, half), text.substr(half));
    split_in_name(text);
    return 0;
}
