// Patterns of a data set's files, and the splits that their names state.
#include "text/data_card.h"

#include "catch.h"

using namespace gptrain;

TEST_CASE("patterns of paths") {
    CHECK(matches_pattern("data/A/1.parquet", "data/*/*"));
    CHECK(matches_pattern("data/A/1.parquet", "data/**"));
    CHECK(matches_pattern("data/A/1.parquet", "**/*.parquet"));
    CHECK(matches_pattern("1.parquet", "**/*.parquet"));
    CHECK(matches_pattern("data/A/1.parquet", "./data/A/1.par*t"));
    CHECK(matches_pattern("a/train-7.x", "a/tr*n-[0-9].?"));
    CHECK(matches_pattern("a/b", "a/[!c]"));
    CHECK_FALSE(matches_pattern("data/A/1.parquet", "data/*"));
    CHECK_FALSE(matches_pattern("data/1.parquet", "data/*/*"));
    CHECK_FALSE(matches_pattern("a/train-x.x", "a/tr*n-[0-9].?"));
    CHECK_FALSE(matches_pattern("a/b", "a/[!b]"));
    CHECK_FALSE(matches_pattern("a/b", "a/[b"));
    CHECK_FALSE(matches_pattern("a/b", ""));
    // Takes no longer than the product of the lengths.
    const std::string many(2000, 'a');
    std::string stars;
    for (int i = 0; i < 500; ++i)
        stars += "a*";
    CHECK_FALSE(matches_pattern(many, stars + "b"));
}

TEST_CASE("splits in names") {
    CHECK(split_in_name("data/train_sft-00000-of-00003-a1b2.parquet") == "train_sft");
    CHECK(split_in_name("data/train-00000-of-00003.parquet") == "train");
    CHECK(split_in_name("c4-validation.00000-of-00008.json.gz") == "validation");
    CHECK(split_in_name("en/dev/part 1.jsonl") == "validation");
    CHECK(split_in_name("train/Test.jsonl") == "test");
    CHECK(split_in_name("eval2.jsonl") == "test");
    CHECK(split_in_name("CC-MAIN-2013-20/000_00000.parquet") == "");
    CHECK(split_in_name("contest/trainer.txt") == "");
    CHECK(split_in_name("data/x-0.parquet") == "");
}
