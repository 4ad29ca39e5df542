// Bank conflicts and matrix instructions of small kernels, counted by hand.
#include "catch.h"
#include "emulator/counts.h"
#include "emulator/planted_kernels.h"

using namespace gptrain;
using namespace gptrain::cuda;
using namespace gptrain::test;

namespace {

struct Words {
    alignas(128) float values[1024];
};

/// The lanes of a warp write words `stride` apart.
void write_apart(int stride) {
    shared_memory<Words>().values[thread_index() * stride] = 1;
}
void read_one(int /*unused*/) {
    Words& shared = shared_memory<Words>();
    if (shared.values[0] == 1) spin_pause();
}
/// 16 bytes for each lane.
void write_pieces(int stride) {
    store(reinterpret_cast<Vec<float, 4>*>(shared_memory<Words>().values) + thread_index() * stride,
          Vec<float, 4>{1, 2, 3, 4});
}
/// Rows of 8 x 8 tiles, `stride` pieces of 16 bytes apart, twice; then a matrix multiply.
void load_rows(int stride) {
    const float* row = shared_memory<Words>().values + lane_index() % 8 * 4 * stride;
    std::uint32_t tiles[4];
    load_tiles(tiles, row);
    load_tiles(tiles, row);
    float c[4] = {};
    multiply_add<Bf16>(c, tiles, {tiles[0], tiles[1]});
}

emulator::Counts counts_of(void (*kernel)(int), int stride) {
    emulator::Counting counting;
    const Stream stream;
    launch(stream, {.threads = warp_threads, .shared_bytes = sizeof(Words)}, kernel, stride);
    stream.synchronize();
    REQUIRE(counting.launches.size() == 1);
    return counting.launches.front();
}

void check(void (*kernel)(int), int stride, std::int64_t wavefronts, std::int64_t conflicts) {
    CAPTURE(stride);
    const emulator::Counts counts = counts_of(kernel, stride);
    CHECK(counts.wavefronts == wavefronts);
    CHECK(counts.conflicts == conflicts);
}

}  // namespace

TEST_CASE("bank conflicts of plain accesses are counted") {
    if (!emulator::sees_plain_accesses()) return;
    check(write_apart, 1, 1, 0);
    check(write_apart, 2, 2, 1);
    check(write_apart, 31, 1, 0);
    check(write_apart, 32, 32, 31);
    check(read_one, 0, 1, 0);
    check(write_pieces, 1, 4, 0);
    check(write_pieces, 2, 8, 4);
}

TEST_CASE("bank conflicts of matrix fragments, and matrix instructions, are counted") {
    check(load_rows, 1, 8, 0);
    check(load_rows, 9, 8, 0);
    check(load_rows, 8, 64, 56);
    const emulator::Counts counts = counts_of(load_rows, 1);
    CHECK(counts.products == 1);
    CHECK(counts.product_flops == 2 * 16 * 8 * 16);
}
