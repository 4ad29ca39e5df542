#include "text/stop_texts.h"

#include <string>
#include <vector>

#include "catch.h"

using gptrain::StopTexts;

namespace {

/// The text shown of a stream, with "|" after each piece, and " stopped" if it was stopped.
std::string shown(std::vector<std::string> texts, const std::vector<std::string>& pieces) {
    StopTexts stop(std::move(texts));
    std::string out;
    for (const std::string& piece : pieces)
        out += stop.push(piece) + "|";
    return out + stop.finish() + (stop.found() ? " stopped" : "");
}

}  // namespace

TEST_CASE("a stop text ends the stream before it") {
    CHECK(shown({"END"}, {"one END two"}) == "one | stopped");
    CHECK(shown({"END"}, {"one E", "N", "D two", "three"}) == "one |||| stopped");
    CHECK(shown({"END"}, {"END"}) == "| stopped");
    // The earliest one counts.
    CHECK(shown({"b", "abc"}, {"xabc"}) == "x| stopped");
    CHECK(shown({"c", "abc"}, {"xab", "c"}) == "x|| stopped");
}

TEST_CASE("text that only begins like a stop text is shown in the end") {
    CHECK(shown({"END"}, {"the EN"}) == "the |EN");
    CHECK(shown({"END"}, {"the EN", "EMY"}) == "the |ENEMY|");
    CHECK(shown({"aab"}, {"a", "a", "a", "c"}) == "||a|aac|");
    CHECK(shown({"\nUser:"}, {"\n", "\nUser"}) == "|\n|\nUser");
    CHECK(shown({}, {"a", "b"}) == "a|b|");
}
