// What byte-level BPE looks up words and characters in.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "catch.h"
#include "text/char_kind.h"
#include "text/unicode.h"
#include "text/word_cache.h"
#include "text/word_table.h"

using namespace gptrain;

namespace {

WordCache::Key key_of(std::string_view word) {
    return {word, word.data() + word.size()};
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
    WordCache cache;
    const auto add = [&](std::size_t i) {
        cache.add(key_of(words[i]), std::vector{static_cast<std::int32_t>(i), 5});
    };
    const auto has = [&](std::size_t i) {
        const auto ids = cache.find(key_of(words[i]));
        return ids.size() == 2 && ids[0] == static_cast<std::int32_t>(i) && ids[1] == 5;
    };
    CHECK(cache.find(key_of(words[0])).empty());
    add(0);
    add(1);
    CHECK(has(1));
    CHECK(has(0));
    add(2);
    CHECK(has(0));
    CHECK(has(2));
    CHECK_FALSE(has(1));
}

TEST_CASE("the key of a word is that of its bytes alone") {
    const std::string text(40, 'x');
    for (std::size_t size = 1; size <= WordCache::max_bytes; ++size) {
        const auto word = std::string_view(text).substr(0, size);
        CHECK(WordCache::Key(word, text.data() + text.size()) == key_of(word));
        CHECK_FALSE(key_of(word) == key_of(text.substr(0, size == 1 ? 2 : size - 1)));
        CHECK_FALSE(key_of(word) == key_of(std::string(word.substr(1)) + "y"));
    }
}

TEST_CASE("the kinds of ASCII characters are those of Unicode") {
    for (unsigned char code = 0; code < 0x80; ++code)
        CHECK(ascii_kinds[code] == CharKinds::instance().of(code));
}
