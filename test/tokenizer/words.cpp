// The tables in which byte-level BPE looks up words and characters.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catch.h"
#include "tokenizer/word_cache.h"
#include "tokenizer/word_table.h"
#include "unicode/char_kind.h"
#include "unicode/unicode.h"

using namespace gptrain;

namespace {

WordCache::Key key_of(std::string_view word) {
    WordCache::Key key;
    key.assign(word, word.data() + word.size());
    return key;
}

/// Empty if the word is missing.
std::vector<std::int32_t> ids_of(WordCache& cache, std::string_view word) {
    std::vector<std::int32_t> ids;
    const bool is_there = cache.append(key_of(word), ids);
    CHECK(is_there == !ids.empty());
    return ids;
}

/// The first `count` of the numbers, spelled, that have one place in the cache.
std::vector<std::string> words_of_one_place(std::size_t count) {
    std::unordered_map<std::size_t, std::vector<std::string>> places;
    for (int number = 0;; ++number) {
        const std::string word = std::to_string(number);
        std::vector<std::string>& words = places[key_of(word).place()];
        words.push_back(word);
        if (words.size() == count) return words;
    }
}

}  // namespace

TEST_CASE("a table of words finds each of them and no other") {
    std::vector<WordTable::Word> words;
    for (int i = 0; i < 3000; ++i)
        words.push_back({std::to_string(i), i});
    words.push_back({"7", -7});
    const WordTable table(words);
    for (int i = 0; i < 3000; ++i)
        CHECK(table.find(std::to_string(i)) == i);
    for (int i = 3000; i < 6000; ++i)
        CHECK(table.find(std::to_string(i)) == std::nullopt);
    CHECK(table.find("") == std::nullopt);
    CHECK(WordTable({}).find("7") == std::nullopt);
}

TEST_CASE("a cache of words forgets the one of a place that was used less recently") {
    const std::vector<std::string> words = words_of_one_place(3);
    WordCache cache(100'000);
    const auto add = [&](std::size_t i) {
        cache.add(key_of(words[i]), std::vector{static_cast<std::int32_t>(i), 5});
    };
    const auto has = [&](std::size_t i) {
        return ids_of(cache, words[i]) == std::vector{static_cast<std::int32_t>(i), 5};
    };
    CHECK(ids_of(cache, words[0]).empty());
    add(0);
    add(1);
    CHECK(has(1));
    CHECK(has(0));
    add(2);
    CHECK(has(0));
    CHECK(has(2));
    CHECK_FALSE(has(1));
}

TEST_CASE("a cache of words keeps up to 8 ids of a word, or 16 below 65,536") {
    const auto keeps = [](std::size_t vocab_size, std::size_t count) {
        WordCache cache(vocab_size);
        std::vector<std::int32_t> ids(count, static_cast<std::int32_t>(vocab_size) - 1);
        ids[0] = 0;
        cache.add(key_of("word"), ids);
        const std::vector<std::int32_t> found = ids_of(cache, "word");
        CHECK((found == ids || found.empty()));
        return !found.empty();
    };
    for (const std::size_t vocab_size : {65'536, 1'000'000}) {
        CHECK(keeps(vocab_size, 1));
        CHECK(keeps(vocab_size, 8));
        CHECK_FALSE(keeps(vocab_size, 9));
    }
    CHECK(keeps(65'535, 9));
    CHECK(keeps(65'535, 16));
    CHECK_FALSE(keeps(65'535, 17));
}

TEST_CASE("the key of a word is that of its bytes alone") {
    const std::string text(40, 'x');
    for (std::size_t size = 1; size <= WordCache::max_bytes; ++size) {
        const auto word = std::string_view(text).substr(0, size);
        WordCache::Key key;
        key.assign(word, text.data() + text.size());
        CHECK(key == key_of(word));
        CHECK_FALSE(key_of(word) == key_of(text.substr(0, size == 1 ? 2 : size - 1)));
        CHECK_FALSE(key_of(word) == key_of(std::string(word.substr(1)) + "y"));
    }
}

TEST_CASE("the kinds of ASCII characters are those of Unicode") {
    for (unsigned char code = 0; code < 0x80; ++code)
        CHECK(ascii_kinds[code] == CharKinds::instance().of(code));
}
