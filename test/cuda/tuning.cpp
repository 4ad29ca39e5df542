#include "cuda/gemm/tuning.h"

#include "catch.h"
#include "support/captured_stderr.h"

namespace gptrain::cuda {
namespace {

using test::contains;
using test::contents;
using test::TempFolder;

TEST_CASE("a tuning table finds again what was noted, in its file too") {
    const TempFolder folder;
    const auto file = folder / "cache/gemms.txt";
    {
        TuningTable table(file);
        table.open("a GPU, library 1");
        CHECK(!table.find("64,32"));
        table.record("64,32", "00ff");
        table.record("8,8", "11");
        table.record("64,32", "0100");
        CHECK(table.find("64,32") == "0100");
        CHECK(!std::filesystem::exists(file));
        table.save();
    }
    CHECK(contents(file) == "gptrain gemms 1: a GPU, library 1\n64,32 0100\n8,8 11\nentries 2\n");
    TuningTable again(file);
    again.open("a GPU, library 1");
    CHECK(again.find("64,32") == "0100");
    CHECK(again.find("8,8") == "11");
}

TEST_CASE("a tuning table of another machine is not used, which is said, and replaced") {
    const TempFolder folder;
    const auto file = folder / "gemms.txt";
    {
        TuningTable table(file);
        table.open("library 1");
        table.record("8,8", "11");
        table.save();
    }
    TuningTable other(file);
    const std::string said = test::stderr_of([&] { other.open("library 2"); });
    CHECK(contains(said, "is from another machine than library 2"));
    CHECK(contains(said, "results may differ from earlier runs in the last bits"));
    CHECK(!other.find("8,8"));
    other.record("9,9", "22");
    other.save();
    CHECK(contents(file) == "gptrain gemms 1: library 2\n9,9 22\nentries 1\n");
}

TEST_CASE("a tuning table of an earlier version is read, unless there is a newer one") {
    const TempFolder folder;
    const auto file = folder / "gemms.txt";
    test::fill(folder / "products.txt", "gptrain products 1: m\n8,8 11\nentries 1\n");
    TuningTable table(file);
    table.open("m");
    CHECK(table.find("8,8") == "11");
    table.record("8,8", "22");
    table.save();
    CHECK(contents(file) == "gptrain gemms 1: m\n8,8 22\nentries 1\n");
    table.open("m");
    CHECK(table.find("8,8") == "22");
}

TEST_CASE("a damaged tuning table is not used") {
    const std::string whole = "gptrain gemms 1: m\n8,8 11\n9,9 22\nentries 2\n";
    const TempFolder folder;
    const auto file = folder / "gemms.txt";
    const auto finds = [&](const std::string& contents) {
        test::fill(file, contents);
        TuningTable table(file);
        table.open("m");
        return table.find("9,9").has_value();
    };
    CHECK(finds(whole));
    // Truncated anywhere.
    for (std::size_t size = 0; size < whole.size(); ++size)
        CHECK(!finds(whole.substr(0, size)));
    CHECK(!finds("gptrain gemms 1: m\n9,9 22\nentries 2\n"));
    CHECK(!finds("gptrain gemms 1: m\n9,9 22\n\nentries 1\n"));
    CHECK(!finds("gptrain gemms 1: m\n9,9 22\n8,8\nentries 2\n"));
    CHECK(!finds("gptrain gemms 1: m\n9,9 22\n 8,8\nentries 2\n"));
    CHECK(!finds(whole + "more\n"));
    CHECK(!finds(std::string(100, '\0')));
}

TEST_CASE("a rank takes the tuning table of another one as text") {
    TuningTable first;
    first.open("m");
    first.record("8,8", "11");
    TuningTable second;
    second.open("m");
    second.record("8,8", "22");
    second.record("9,9", "22");
    CHECK(second.replace(first.to_text()));
    CHECK(second.find("8,8") == "11");
    CHECK(!second.find("9,9"));
    TuningTable third;
    third.open("another");
    third.record("9,9", "22");
    CHECK(!third.replace(first.to_text()));
    CHECK(!third.find("8,8"));
    CHECK(!third.find("9,9"));
}

}  // namespace
}  // namespace gptrain::cuda
