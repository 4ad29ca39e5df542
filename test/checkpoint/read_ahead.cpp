// Reading a checkpoint before it is needed.
#include "checkpoint/read_ahead.h"

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "catch.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::fill;
using test::TempFolder;

/// The bytes that this process has read from files.
std::int64_t bytes_read() {
    std::ifstream file("/proc/self/io");
    std::string key;
    std::int64_t bytes = -1;
    file >> key >> bytes;
    REQUIRE(key == "rchar:");
    return bytes;
}

TEST_CASE("a rank's shard files are those that it would have written") {
    const TempFolder folder;
    for (const char* name : {"shard-00000.h5", "shard-00001.h5", "shard-00002.h5", "model.h5"})
        fill(folder / name, "x");
    using Files = std::vector<std::filesystem::path>;
    CHECK(shard_files_of(folder.path(), 1, 3) == Files{folder / "shard-00001.h5"});
    CHECK(shard_files_of(folder.path(), 0, 2) ==
          Files{folder / "shard-00000.h5", folder / "shard-00002.h5"});
    CHECK(shard_files_of(folder.path(), 3, 4).empty());
    CHECK(shard_files_of(folder / "none", 0, 1).empty());
}

TEST_CASE("files are read ahead, as far as they are there and memory goes") {
    constexpr std::int64_t size = std::int64_t{3} << 20;
    constexpr std::int64_t few = std::int64_t{1} << 19;
    const TempFolder folder;
    fill(folder / "a", std::string(size, 'a'));
    fill(folder / "b", std::string(size, 'b'));
    const auto read_by = [&](std::int64_t most, std::int64_t enough) {
        const std::int64_t before = bytes_read();
        const ReadAhead ahead({folder / "a", folder / "b", folder / "none"}, most);
        for (int i = 0; i < 500 && bytes_read() - before < enough; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        // Whatever else it would read.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return bytes_read() - before;
    };
    CHECK(read_by(1000 * size, 2 * size) >= 2 * size);
    const std::int64_t part = read_by(size, size);
    CHECK(part >= size);
    CHECK(part < size + few);
    CHECK(read_by(0, 0) < few);
}

}  // namespace
}  // namespace gptrain
