// Runs a fuzz target on every file of the given folders and prints each name first.
//
//   replay TARGET FOLDER...
#include "fuzz/replay.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/file.h"

int main(int argc, char** argv) {
    const auto target = fuzz_targets.find(argc > 1 ? argv[1] : "");
    if (target == fuzz_targets.end()) return 2;
    std::size_t count = 0;
    for (int i = 2; i < argc; ++i) {
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
            files.push_back(entry.path());
        std::sort(files.begin(), files.end());
        for (const std::filesystem::path& file : files) {
            std::printf("%s\n", file.c_str());
            std::fflush(stdout);
            // A copy of exactly this size, so that a sanitizer sees a read past the end.
            const std::string input = gptrain::read_file(file, 1 << 20);
            const std::vector<std::uint8_t> bytes(input.begin(), input.end());
            target->second(bytes.data(), bytes.size());
        }
        if (files.empty()) return 1;
        count += files.size();
    }
    std::printf("%zu inputs\n", count);
    return count > 0 ? 0 : 1;
}
