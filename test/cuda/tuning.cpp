#include "cuda/tuning.h"

#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

using test::contents;
using test::TempFolder;

TEST_CASE("a tuning table finds again what was noted, in its file too") {
    const TempFolder folder;
    const auto file = folder / "cache/products.txt";
    {
        TuningTable table(file);
        table.open("a GPU, library 1");
        CHECK(!table.find("64,32"));
        table.note("64,32", "00ff");
        table.note("8,8", "11");
        table.note("64,32", "0100");
        CHECK(table.find("64,32") == "0100");
    }
    CHECK(contents(file) ==
          "gptrain products 1: a GPU, library 1\n64,32 0100\n8,8 11\nentries 2\n");
    TuningTable again(file);
    again.open("a GPU, library 1");
    CHECK(again.find("64,32") == "0100");
    CHECK(again.find("8,8") == "11");
}

TEST_CASE("a tuning table of another machine is not used, and replaced") {
    const TempFolder folder;
    const auto file = folder / "products.txt";
    {
        TuningTable table(file);
        table.open("library 1");
        table.note("8,8", "11");
    }
    TuningTable other(file);
    other.open("library 2");
    CHECK(!other.find("8,8"));
    other.note("9,9", "22");
    CHECK(contents(file) == "gptrain products 1: library 2\n9,9 22\nentries 1\n");
}

TEST_CASE("a damaged tuning table is not used") {
    const std::string whole = "gptrain products 1: m\n8,8 11\n9,9 22\nentries 2\n";
    const TempFolder folder;
    const auto file = folder / "products.txt";
    const auto finds = [&](const std::string& contents) {
        test::fill(file, contents);
        TuningTable table(file);
        table.open("m");
        return table.find("9,9").has_value();
    };
    CHECK(finds(whole));
    // Cut short anywhere.
    for (std::size_t size = 0; size < whole.size(); ++size)
        CHECK(!finds(whole.substr(0, size)));
    CHECK(!finds("gptrain products 1: m\n9,9 22\nentries 2\n"));
    CHECK(!finds("gptrain products 1: m\n9,9 22\n\nentries 1\n"));
    CHECK(!finds("gptrain products 1: m\n9,9 22\n8,8\nentries 2\n"));
    CHECK(!finds("gptrain products 1: m\n9,9 22\n 8,8\nentries 2\n"));
    CHECK(!finds(whole + "more\n"));
    CHECK(!finds(std::string(100, '\0')));
}

TEST_CASE("ranks share a tuning table as text") {
    TuningTable first;
    first.open("m");
    first.note("8,8", "11");
    TuningTable second;
    second.open("m");
    CHECK(second.add(first.to_text()));
    CHECK(second.find("8,8") == "11");
    TuningTable third;
    third.open("another");
    CHECK(!third.add(first.to_text()));
    CHECK(!third.find("8,8"));
}

}  // namespace
}  // namespace gptrain::cuda
