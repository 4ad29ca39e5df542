// How GEMMs are chosen, over the library in fake_cublas_lt.cpp and the emulator's device. The op
// cases, over the same, show that they are right.
#include "cuda/gemm/gemms.h"

#include <cublasLt.h>
#include <utility>

#include "catch.h"
#include "cuda/fake_cublas_lt.h"
#include "cuda/gemm/tuning.h"
#include "cuda/gemm_operands.h"
#include "support/temp_folder.h"

namespace gptrain::cuda {
namespace {

using test::contains;
using test::contents;
using test::TempFolder;

constexpr std::string_view first_choice = "0000000000000001";
constexpr std::string_view fastest = "0000000000000003";

/// Needs more workspace than a GEMM gets.
constexpr std::string_view large = "0000000000000005";
constexpr std::string_view unknown = "0000000000000099";

/// How often the library has run a GEMM.
std::int64_t runs() {
    return fake_cublas_lt_runs_of(fake_plain) + fake_cublas_lt_runs_of(fake_with_epilogue);
}

/// Tunes with a table kept in a file; returns the file's contents.
std::string tuned(const std::filesystem::path& file, Device& device) {
    TuningTable table(file);
    Gemms gemms(device.properties, &table);
    const Sum scratch;
    gemms.tune([&] { gemms.run(scratch.gemm(), no_kernel, device.context()); });
    return contents(file);
}

/// True if the GEMM is right and this algorithm computed it.
bool computes_by(FakeAlgorithm algorithm, Gemms& gemms, Device& device) {
    const Sum sum;
    const std::int64_t all = runs();
    const std::int64_t wanted = fake_cublas_lt_runs(algorithm);
    gemms.run(sum.gemm(), no_kernel, device.context());
    return sum.c.all(21) && runs() == all + 1 && fake_cublas_lt_runs(algorithm) == wanted + 1;
}

TEST_CASE("tuning takes the fastest algorithm, and GEMMs do so afterwards", "[gemms]") {
    const TempFolder folder;
    Device device;
    const auto file = folder / "gemms.txt";
    CHECK(contains(tuned(file, device), " " + std::string(fastest)));
    TuningTable table(file);
    Gemms gemms(device.properties, &table);
    CHECK(computes_by(fake_fast, gemms, device));
}

TEST_CASE("what the tuning table holds is not timed, unless the library cannot run it", "[gemms]") {
    const TempFolder folder;
    const auto file = folder / "gemms.txt";
    Device device;
    const auto replaced = [](std::string text, std::string_view from, std::string_view to) {
        return text.replace(text.find(from), from.size(), to);
    };
    const std::string found = tuned(file, device);
    const std::string other = replaced(found, fastest, first_choice);
    test::fill(file, other);
    const std::int64_t before = runs();
    CHECK(tuned(file, device) == other);
    CHECK(runs() == before);
    test::fill(file, replaced(found, fastest, GENERATE(unknown, large)));
    CHECK(tuned(file, device) == found);
    CHECK(runs() > before);
}

TEST_CASE("GEMMs beside messages have entries in the table apart from the others", "[gemms]") {
    const TempFolder folder;
    Device device;
    const auto tuned_for = [&](std::int32_t multiprocessors) {
        TuningTable table(folder / "gemms.txt");
        Gemms gemms(device.properties, &table);
        const Sum scratch;
        OpContext context = device.context();
        context.gemm_multiprocessors = multiprocessors;
        gemms.tune([&] { gemms.run(scratch.gemm(), no_kernel, context); });
        return contents(folder / "gemms.txt");
    };
    const std::string before = tuned_for(0);
    const std::string key = before.substr(
        before.find('\n') + 1, before.find(' ', before.find('\n')) - before.find('\n') - 1);
    const std::string after = tuned_for(116);
    CHECK(contains(after, key + " "));
    CHECK(contains(after, key + ",116 "));
    CHECK(contains(after, "entries 2"));
}

TEST_CASE("another GPU tunes anew", "[gemms]") {
    const TempFolder folder;
    const auto file = folder / "gemms.txt";
    Device device;
    const std::string found = tuned(file, device);
    CHECK(contains(found, "emulated device"));
    device.properties.name = "another GPU";
    const std::int64_t before = runs();
    CHECK(contains(tuned(file, device), "another GPU"));
    CHECK(runs() > before);
}

TEST_CASE("without an entry the library's first choice is taken, and nothing is timed", "[gemms]") {
    Device device;
    TuningTable table;
    Gemms gemms(device.properties, &table);
    CHECK(computes_by(fake_slow, gemms, device));
    Gemms without_table(device.properties, nullptr);
    CHECK(computes_by(fake_slow, without_table, device));
}

TEST_CASE("GEMMs take another rank's table, but not another machine's", "[gemms]") {
    const TempFolder folder;
    Device device;
    const std::string found = tuned(folder / "gemms.txt", device);
    TuningTable table;
    Gemms gemms(device.properties, &table);
    CHECK(computes_by(fake_slow, gemms, device));
    CHECK(gemms.use_table(found));
    CHECK(computes_by(fake_fast, gemms, device));
    device.properties.name = "another GPU";
    TuningTable other_table;
    Gemms other(device.properties, &other_table);
    CHECK(!other.use_table(found));
    CHECK(computes_by(fake_slow, other, device));
}

TEST_CASE("a choice that the library declines is followed by its next one", "[gemms]") {
    Device device;
    Gemms gemms(device.properties, nullptr);
    const Sum sum;
    fake_cublas_lt_refuse_slow(true);
    gemms.run(sum.gemm(), no_kernel, device.context());
    fake_cublas_lt_refuse_slow(false);
    CHECK(sum.c.all(21));
    // It stays.
    CHECK(computes_by(fake_fast, gemms, device));
}

TEST_CASE("a GEMM that the library cannot do at all is an error that names it", "[gemms]") {
    const auto call = GENERATE(fake_heuristic, fake_matmul);
    const bool tuned = GENERATE(true, false);
    CAPTURE(call, tuned);
    const Answer declined(call, fake_plain, CUBLAS_STATUS_INVALID_VALUE);
    Device device;
    TuningTable table;
    Gemms gemms(device.properties, &table);
    const Sum sum;
    const auto multiply = [&] { gemms.run(sum.gemm(), no_kernel, device.context()); };
    CHECK(contains(
        test::message_of(ExitCode::usage, [&] { tuned ? gemms.tune(multiply) : multiply(); }),
        "cuBLASLt has no algorithm on this GPU for a GEMM of 3 x 5 x 4 in fp32"));
}

TEST_CASE("a fault of the library is no refusal", "[gemms]") {
    const Answer fault(fake_matmul, fake_plain, CUBLAS_STATUS_EXECUTION_FAILED);
    Device device;
    Gemms gemms(device.properties, nullptr);
    const Sum sum;
    CHECK(contains(test::message_of(ExitCode::bug,
                                    [&] { gemms.run(sum.gemm(), no_kernel, device.context()); }),
                   "cublasLtMatmul: fault"));
}

TEST_CASE("each call of the library is checked", "[gemms]") {
    using Case = std::pair<FakeCall, const char*>;
    const auto [call, name] = GENERATE(
        Case(fake_create, "cublasLtCreate"), Case(fake_desc_create, "cublasLtMatmulDescCreate"),
        Case(fake_desc_set, "cublasLtMatmulDescSetAttribute"),
        Case(fake_layout_create, "cublasLtMatrixLayoutCreate"),
        Case(fake_preference_create, "cublasLtMatmulPreferenceCreate"),
        Case(fake_preference_set, "cublasLtMatmulPreferenceSetAttribute"),
        Case(fake_heuristic, "cublasLtMatmulAlgoGetHeuristic"),
        Case(fake_matmul, "cublasLtMatmul"));
    // A lack of memory is no fault of gptrain's.
    const bool memory = GENERATE(true, false);
    CAPTURE(name, memory);
    const Answer fault(call, fake_plain,
                       memory ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_INTERNAL_ERROR);
    Device device;
    const Sum sum;
    CHECK(contains(test::message_of(memory ? ExitCode::usage : ExitCode::bug,
                                    [&] {
                                        Gemms gemms(device.properties, nullptr);
                                        gemms.run(sum.gemm(), no_kernel, device.context());
                                    }),
                   text("cuBLASLt: ", name, ": fault")));
}

TEST_CASE("a declined description of a GEMM without an epilogue is a fault", "[gemms]") {
    const Answer declined(fake_desc_set, fake_plain, CUBLAS_STATUS_INVALID_VALUE);
    Device device;
    Gemms gemms(device.properties, nullptr);
    const Sum sum;
    CHECK(contains(test::message_of(ExitCode::bug,
                                    [&] { gemms.run(sum.gemm(), no_kernel, device.context()); }),
                   "cublasLtMatmulDescSetAttribute: invalid value"));
}

TEST_CASE("a recorded algorithm that the library cannot check gives way to its first choice",
          "[gemms]") {
    const TempFolder folder;
    Device device;
    const std::string found = tuned(folder / "gemms.txt", device);
    TuningTable table;
    Gemms gemms(device.properties, &table);
    CHECK(gemms.use_table(found));
    const Answer fault(fake_check, fake_plain, CUBLAS_STATUS_INTERNAL_ERROR);
    CHECK(computes_by(fake_slow, gemms, device));
}

TEST_CASE("an algorithm that needs aligned matrices is tried only for those", "[gemms]") {
    // All rows have 16 bytes except in one matrix, or one matrix is not aligned to 16 bytes.
    const std::int64_t uneven = GENERATE(-1, 0, 1, 2);
    const bool shifted = GENERATE(true, false);
    if (uneven == -1 && shifted) return;
    CAPTURE(uneven, shifted);
    const Numbers memory(3, 64, 0);
    const auto matrix = [&](std::int64_t which) {
        Matrix result = memory.matrix();
        result.data += 256 * which + (which == uneven && shifted ? 4 : 0);
        result.rows = result.cols = 4;
        result.row_stride = which == uneven && !shifted ? 5 : 4;
        return result;
    };
    const Gemm gemm = {.a = matrix(0), .b = matrix(1), .c = matrix(2)};
    Device device;
    TuningTable table;
    Gemms gemms(device.properties, &table);
    const std::int64_t before = fake_cublas_lt_runs(fake_aligned);
    gemms.tune([&] { gemms.run(gemm, no_kernel, device.context()); });
    CHECK((fake_cublas_lt_runs(fake_aligned) > before) == (uneven == -1));
}

TEST_CASE("an FP8 GEMM that the library does not support says why", "[gemms]") {
    // Either the sizes or the addresses are not multiples of 16.
    const auto [size, offset] = GENERATE(std::pair(8, 0), std::pair(16, 8));
    CAPTURE(size, offset);
    Device device;
    Gemms gemms(device.properties, nullptr);
    const Numbers memory(size, size, 0);
    const Numbers result(size, size, 0);
    Matrix a = memory.matrix();
    a.dtype = DType::f8e4m3;
    a.data += offset;
    const Gemm gemm = {.a = a, .b = a.transposed(), .c = result.matrix()};
    CHECK(contains(
        test::message_of(ExitCode::usage, [&] { gemms.run(gemm, no_kernel, device.context()); }),
        "fp8 needs compute capability 8.9"));
}

TEST_CASE("an FP8 GEMM in blocks that the library does not support names the key", "[gemms]") {
    // A library or a GPU without these modes declines the attribute.
    Device device;
    Gemms gemms(device.properties, nullptr);
    const Numbers memory(128, 128, 0);
    const Numbers result(128, 128, 0);
    Matrix a = memory.matrix();
    a.dtype = DType::f8e4m3;
    std::vector<float> scales(128, 1.0f);
    a.scale = scales.data();
    a.scales = {.rows = 1, .cols = 128, .row_step = 1, .col_step = 128};
    const Gemm gemm = {.a = a, .b = a.transposed(), .c = result.matrix()};
    const Answer declines(fake_desc_set, fake_plain, CUBLAS_STATUS_NOT_SUPPORTED);
    CHECK(contains(
        test::message_of(ExitCode::usage, [&] { gemms.run(gemm, no_kernel, device.context()); }),
        "set precision.fp8_weight_gradients to bf16"));
}

}  // namespace
}  // namespace gptrain::cuda
