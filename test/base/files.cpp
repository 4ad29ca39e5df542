// Files and JSON.
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "base/file.h"
#include "base/file_calls.h"
#include "base/json.h"
#include "base/log.h"
#include "base/temporary_file.h"
#include "catch.h"
#include "support/temp_folder.h"

using namespace gptrain;
using gptrain::test::TempFolder;

namespace {

/// The message of the Error with this code that `call` must throw.
template <class Call>
std::string fault(ExitCode code, const Call& call) {
    try {
        call();
    } catch (const Error& error) {
        CHECK(error.code() == code);
        return error.what();
    }
    FAIL("no error");
    return {};
}

}  // namespace

TEST_CASE("a file is replaced as a whole", "[base]") {
    const TempFolder folder;
    const auto path = folder.path() / "a.txt";
    write_file_durably(path, "old");
    write_file_durably(path, "new contents");
    CHECK(read_file(path, 100) == "new contents");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

namespace {

/// Makes one call fail or do half its work; counts all calls.
class OneFate final : public CallInterceptor {
public:
    OneFate(int which, CallFate fate) : which_(which), fate_(fate) { intercept_calls(this); }
    OneFate(const OneFate&) = delete;
    OneFate& operator=(const OneFate&) = delete;
    ~OneFate() override { intercept_calls(nullptr); }
    CallFate intercept(std::string_view call, const std::filesystem::path& path) override {
        ++seen;
        last = std::string(call) + " " + path.filename().string();
        return seen == which_ ? fate_ : CallFate{};
    }

    int seen = 0;
    std::string last;

private:
    int which_;
    CallFate fate_;
};

}  // namespace

TEST_CASE("any call that changes a file can fail for a test, and the old contents stay", "[base]") {
    const TempFolder folder;
    const auto path = folder.path() / "a.txt";
    write_file_durably(path, "old");
    const auto replace = [&](int which, CallFate fate) {
        OneFate one(which, fate);
        write_file_durably(path, "new contents");
        return one.seen;
    };
    // open, write, fsync and rename of the file, then fsync of its folder
    CHECK(replace(0, {}) == 5);
    for (const int which : {1, 2, 3, 4}) {
        CAPTURE(which);
        write_file_durably(path, "old");
        CHECK(fault(ExitCode::io, [&] {
                  replace(which, {.error = ENOSPC});
              }).ends_with("No space left on device"));
        CHECK(read_file(path, 100) == "old");
    }
    CHECK(fault(ExitCode::io, [&] { replace(5, {.error = EIO}); }).ends_with("Input/output error"));
    write_file_durably(path, "old");
    // Writing the rest after a short write takes one more call.
    CHECK(replace(2, {.half = true}) == 6);
    CHECK(read_file(path, 100) == "new contents");
    OneFate one(1, {.error = EIO});
    CHECK(fault(ExitCode::io, [&] { remove_path(path); }).find("cannot be removed") !=
          std::string::npos);
    CHECK(one.last == "remove a.txt");
    remove_path(path);
    CHECK(!std::filesystem::exists(path));
}

TEST_CASE("a file is made long enough where its file system cannot reserve space", "[base]") {
    const int error = GENERATE(0, EOPNOTSUPP, ENOSYS);
    CAPTURE(error);
    const TempFolder folder;
    File file(folder.path() / "file", File::Mode::create);
    for (const std::int64_t bytes : {4096, 100}) {
        const OneFate fate(1, {.error = error});
        file.reserve(bytes);
        CHECK(file.size() == 4096);
    }
}

TEST_CASE("faulty files are named", "[base]") {
    const TempFolder folder;
    const auto missing = folder.path() / "missing";
    CHECK(fault(ExitCode::usage, [&] {
              read_file(missing, 10, ExitCode::usage);
          }).find("missing") != std::string::npos);
    CHECK(fault(ExitCode::usage,
                [] { require_path("no/such", ExitCode::usage, "folder", "; make it"); }) ==
          text("no/such: no such folder (relative to ", std::filesystem::current_path().string(),
               ", where the program was started); make it"));
    CHECK(fault(ExitCode::usage, [&] {
              require_path(missing, ExitCode::usage, "folder", "; make it");
          }) == missing.string() + ": no such folder; make it");
    CHECK(require_path(folder.path(), ExitCode::usage, "folder") ==
          std::filesystem::file_type::directory);
    CHECK(named_yaml("a/run.yaml"));
    CHECK(!named_yaml("yaml"));
    CHECK(fault(ExitCode::bad_input, [&] {
              read_file(folder.path(), 10);
          }).find("not a regular file") != std::string::npos);
    const auto path = folder.path() / "large";
    write_file_durably(path, std::string(11, 'x'));
    CHECK(fault(ExitCode::bad_input, [&] { read_file(path, 10); }).find("limit") !=
          std::string::npos);
    const File file(path, File::Mode::read);
    std::byte bytes[4];
    CHECK(fault(ExitCode::bad_input, [&] { file.read_at(8, bytes); }).find("bytes missing") !=
          std::string::npos);
    CHECK(fault(ExitCode::io, [&] { File(missing / "x", File::Mode::create); }).find("missing") !=
          std::string::npos);
}

TEST_CASE("a mapped file shows its bytes", "[base]") {
    const TempFolder folder;
    const auto path = folder.path() / "m";
    write_file_durably(path, "mapped");
    const MappedFile mapped(path);
    CHECK(std::string(reinterpret_cast<const char*>(mapped.bytes().data()),
                      mapped.bytes().size()) == "mapped");
    write_file_durably(folder.path() / "empty", "");
    CHECK(MappedFile(folder.path() / "empty").bytes().empty());
}

TEST_CASE("JSON is read strictly", "[base]") {
    const Json json = parse_json(R"({"b": [1, 2.5, "x"], "a": null})", "f");
    CHECK(to_line(json) == R"({"b":[1,2.5,"x"],"a":null})");
    const auto refused = [](const std::string& text) {
        return fault(ExitCode::bad_input, [&] { parse_json(text, "f.json"); });
    };
    CHECK(refused("{\"a\": 1,\n \"a\": 2}").find("duplicate key 'a'") != std::string::npos);
    CHECK(refused("{\"a\": 1,\n  oops}").find("f.json:2:") == 0);
    CHECK(refused("{} {}").find("f.json:1:") == 0);
    CHECK(refused(std::string(100, '[')).find("nested") != std::string::npos);
    CHECK(refused("").find("f.json") == 0);
    // nlohmann's own parser accepts the first as the end of the text, and skips the second.
    CHECK(refused(std::string("{}\0{}", 5)).find("not valid JSON") != std::string::npos);
    CHECK(refused("\xEF\xBB\xBF{}").find("not valid JSON") != std::string::npos);
}

TEST_CASE("JSON may have the numbers that Python writes, which nobody reads by mistake", "[base]") {
    const Json json = parse_json(R"({"NaN": [NaN, 1, -Infinity, "Infinity \"NaN"], "x": Infinity,
                       "n": -2e1, "y": NaN})",
                                 "f");
    CHECK(to_line(json) == R"({"NaN":[null,1,null,"Infinity \"NaN"],"x":null,"n":-20.0,"y":null})");
    CHECK(json.at("NaN")[2].get<double>() == -std::numeric_limits<double>::infinity());
    CHECK(json.at("x").get<double>() == std::numeric_limits<double>::infinity());
    CHECK(std::isnan(json.at("y").get<double>()));
    const JsonReader reader(json, "f");
    CHECK(reader.number("n") == -20);
    for (const char* key : {"x", "y"}) {
        CHECK(fault(ExitCode::bad_input, [&] { reader.number(key); }) ==
              text("f: '", key, "' is NaN or infinite, must be a number"));
        CHECK_THROWS_AS(reader.integer(key), Error);
    }
    for (const char* word : {"nan", "NAN", "-NaN", "+Infinity", "NaN1", "Infinit", "inf"}) {
        CAPTURE(word);
        const std::string line = text("{\"a\": Infinity,\n \"b\": ", word, "}");
        CHECK(fault(ExitCode::bad_input, [&] { parse_json(line, "f"); }).starts_with("f:2:"));
    }
}

TEST_CASE("a pointer of git-LFS is not the file", "[base]") {
    const test::TempFolder folder;
    const std::string pointer =
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    write_file_durably(folder / "model", pointer);
    const std::string why = text((folder / "model").string(),
                                 ": is a git-LFS pointer, not the file itself; fetch that with "
                                 "`git lfs pull`");
    CHECK(fault(ExitCode::bad_input, [&] { read_file(folder / "model", 1000); }) == why);
    CHECK(fault(ExitCode::bad_input, [&] { MappedFile(folder / "model"); }) == why);
    write_file_durably(folder / "large", pointer + std::string(1000, ' '));
    CHECK(read_file(folder / "large", 2000).size() == pointer.size() + 1000);
    write_file_durably(folder / "other", "version https://git");
    CHECK(read_file(folder / "other", 2000) == "version https://git");
}

TEST_CASE("a variable of a shell makes no file or folder", "[base]") {
    const test::TempFolder folder;
    const auto refused = [&](const std::filesystem::path& path) {
        const auto act = [&] { create_folders(path); };
        return fault(ExitCode::usage, act);
    };
    const std::string where = folder.path().string();
    CHECK(refused(folder / "${A}/b") ==
          where + "/${A}/b: ${A} is not expanded; write the path that it stands for");
    CHECK(refused(folder / "x/a-$HOME").find("$HOME is not") != std::string::npos);
    CHECK(fault(ExitCode::usage, [&] {
              File(folder / "$A.txt", File::Mode::create);
          }).find("$A is not") != std::string::npos);
    CHECK(std::filesystem::is_empty(folder.path()));
    // An existing name is taken as it is.
    std::filesystem::create_directory(folder / "$A");
    create_folders(folder / "$A/b$");
    CHECK(std::filesystem::is_directory(folder / "$A/b$"));
}

TEST_CASE("hostile JSON does not reach into the message", "[base]") {
    const auto refused = [](const std::string& text) {
        return fault(ExitCode::bad_input, [&] { parse_json(text, "f"); });
    };
    CHECK(refused(R"({"a\n\u001b[2J": 1, "a\n\u001b[2J": 2})") ==
          R"(f: duplicate key 'a\n\u001b[2J')");
    const std::string key(100000, 'k');
    CHECK(refused("{\"" + key + "\": 1, \"" + key + "\": 2}").size() < 100);
    CHECK(refused("[\"" + key).size() < 300);
    CHECK(fault(ExitCode::bad_input, [&] {
              JsonReader(Json{{key, 1}}, "f").allow_only({"a"});
          }).size() < 100);
}

TEST_CASE("control characters are shown", "[base]") {
    CHECK(without_controls("a\x1b[2J\tb\nc\x7f\r") == "a\\x1b[2J\tb\nc\\x7f\\x0d");
    CHECK(without_controls("\xC2\x9B"
                           "31m\xC2\xA0\xC3\xA4 \xE2\x82\xAC") ==
          "\\u009b31m\xC2\xA0\xC3\xA4 \xE2\x82\xAC");
    // Not UTF-8: a C1 byte alone, an overlong ESC, and a character that another write may complete.
    CHECK(without_controls("\x9B"
                           "1m") == "\\x9b1m");
    CHECK(without_controls("\xC0\x9B") == "\\xc0\\x9b");
    CHECK(without_controls("a\xC2") == "a\\xc2");
    CHECK(without_controls(std::string_view("\0", 1)) == "\\x00");
}

TEST_CASE("an object of very many keys is read soon", "[base]") {
    std::string json = "{\"first\": 0";
    for (int i = 0; i < 300000; ++i)
        json += text(", \"k", i, "\": 0");
    CHECK(parse_json(json + "}", "f").size() == 300001);
    const auto refused = [&](const std::string& end) {
        return fault(ExitCode::bad_input, [&] { parse_json(json + end, "f"); });
    };
    CHECK(refused(", \"first\": 1}") == "f: duplicate key 'first'");
    CHECK(refused(", \"k299999\": 1}") == "f: duplicate key 'k299999'");
}

TEST_CASE("members of a JSON object have their type", "[base]") {
    const Json json = parse_json(R"({"n": 3, "x": 1.5, "s": "t", "big": 18446744073709551615,
                       "list": [9223372036854775808]})",
                                 "f");
    const JsonReader reader(json, "f");
    CHECK(reader.integer("n") == 3);
    CHECK(reader.number("x") == 1.5);
    CHECK(reader.string("s") == "t");
    CHECK_THROWS_AS(reader.integer("x"), Error);
    CHECK_THROWS_AS(reader.integer("big"), Error);
    CHECK_THROWS_AS(reader.integers("list"), Error);
    CHECK_THROWS_AS(reader.string("missing"), Error);
    CHECK_THROWS_AS(reader.allow_only({"n", "x"}), Error);
}

TEST_CASE("numbers that are not finite are written as null", "[base]") {
    CHECK(to_line({{"a", std::numeric_limits<double>::quiet_NaN()}, {"b", 0.1}}) ==
          R"({"a":null,"b":0.1})");
}
