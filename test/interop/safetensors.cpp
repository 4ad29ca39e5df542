#include "interop/safetensors.h"

#include <cstring>
#include <string>

#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

std::string refusal(const std::string& header, std::int64_t data_bytes) {
    return test::message_of(ExitCode::bad_input,
                            [&] { parse_safetensors_header(header, data_bytes, "a"); });
}

std::string entry(const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}";
}

TEST_CASE("what is written is read back") {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        const std::string prefix =
            safetensors_prefix(std::vector<NamedShape>{{"a", {2, 3}, dtype}, {"b", {4}, dtype}});
        CHECK(prefix.size() % 8 == 0);
        const test::TempFolder folder;
        const std::int64_t bytes = 10 * size_of(dtype);
        test::fill(folder / "x", prefix + std::string(static_cast<std::size_t>(bytes), 'x'));
        const SafetensorsFile file(folder / "x");
        REQUIRE(file.tensors().size() == 2);
        const SafetensorsEntry& b = file.tensors().find("b")->second;
        CHECK(b.shape == std::vector<std::int64_t>{4});
        CHECK(b.begin == 6 * size_of(dtype));
        CHECK(weight_dtype(b, "b") == dtype);
        CHECK(file.bytes_of(b).size() == static_cast<std::size_t>(4 * size_of(dtype)));
    }
}

TEST_CASE("odd but valid headers are read") {
    CHECK(parse_safetensors_header("{}", 0, "a").empty());
    CHECK(parse_safetensors_header(R"(  {"__metadata__":{"format":"pt"},"s":)" +
                                       entry("[]", "[0,4]") + R"(,"e":)" + entry("[0,7]", "[4,4]") +
                                       "}  ",
                                   4, "a")
              .size() == 2);
}

TEST_CASE("faulty headers are refused") {
    CHECK(refusal(R"({"a":)" + entry("[1]", "[0,4]") + "}", 4).empty());
    const std::vector<std::pair<std::string, std::int64_t>> faults = {
        {R"({"a":)" + entry("[1]", "[0,4]") + "}", 5},  // trailing byte
        {R"({"a":)" + entry("[1]", "[0,4]") + "}", 3},  // cut off
        {R"({"a":)" + entry("[1]", "[1,5]") + "}", 5},  // gap
        {R"({"a":)" + entry("[1]", "[0,4]") + R"(,"b":)" + entry("[1]", "[0,4]") + "}", 4},
        {R"({"a":)" + entry("[2]", "[0,8]") + R"(,"b":)" + entry("[2]", "[4,12]") + "}", 12},
        {R"({"a":)" + entry("[2]", "[0,4]") + "}", 4},  // size
        {R"({"a":)" + entry("[1]", "[4,0]") + "}", 4},  // reversed
        {R"({"a":)" + entry("[-1]", "[0,4]") + "}", 4},
        {R"({"a":)" + entry("[1]", "[-4,0]") + "}", 4},
        {R"({"a":)" + entry("[1.0]", "[0,4]") + "}", 4},
        {R"({"a":)" + entry("[4611686018427387904,4]", "[0,0]") + "}", 0},  // overflow
        {R"({"a":)" + entry("[9223372036854775808]", "[0,4]") + "}", 4},
        {R"({"a":)" + entry("[1]", "[0,4]", "F33") + "}", 4},
        {R"({"a":)" + entry("[1]", "[0,4,4]") + "}", 4},
        {R"({"a":)" + entry("[1]", "[0,4]") + R"(,"a":)" + entry("[1]", "[0,4]") + "}", 4},
        {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4},
        {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4},
        {R"({"__metadata__":{"a":1}})", 0},
        {R"({"__metadata__":"pt"})", 0},
        {R"({"a":1})", 0},
        {"[]", 0},
        {"", 0},
        {std::string("{}\0", 3), 0},
    };
    for (const auto& [header, bytes] : faults) {
        INFO(header);
        const std::string message = refusal(header, bytes);
        CHECK(message.starts_with("a:"));
    }
}

TEST_CASE("files that are cut off or something else are refused") {
    const test::TempFolder folder;
    const auto refused = [&](const std::string& bytes) {
        test::fill(folder / "x", bytes);
        return test::message_of(ExitCode::bad_input, [&] { SafetensorsFile(folder / "x"); });
    };
    const std::string good = safetensors_prefix(std::vector<NamedShape>{{"a", {2}}});
    CHECK(refused(good + "12345678").empty());
    for (const std::string& bytes :
         {std::string(), std::string("1234567"), good.substr(0, 20), good, good + "1234567",
          good + "123456789", std::string(8, '\xff'), std::string(16, '\0')}) {
        INFO(bytes.size());
        CHECK(test::contains(refused(bytes), "/x"));
    }
}

TEST_CASE("weights of other dtypes are refused") {
    CHECK(test::contains(test::message_of(ExitCode::bad_input,
                                          [] {
                                              weight_dtype({"I64", {1}, 0, 8}, "file: tensor a");
                                          }),
                         "tensor a has dtype I64"));
}

}  // namespace
}  // namespace gptrain
