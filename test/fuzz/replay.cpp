// Runs a fuzz target on every file of the given folders. Prints the name of each first, then what
// the parsers find wrong with it.
//
//   replay TARGET FOLDER...
//
// A folder's refusals.txt names files and a part of what must be found wrong with each:
// NAME<TAB>PART. So a hostile file cannot be refused, unnoticed, for a fault other than its own.
#include "fuzz/replay.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "fuzz/target.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* list_name = "refusals.txt";

/// The lines of a folder's refusals.txt.
std::map<std::string, std::string> expected_in(const fs::path& folder) {
    std::map<std::string, std::string> expected;
    if (!fs::exists(folder / list_name)) return expected;
    std::istringstream lines(gptrain::read_file(folder / list_name, 1 << 20));
    for (std::string name, part; std::getline(lines, name, '\t') && std::getline(lines, part);)
        expected.emplace(name, part);
    return expected;
}

std::vector<fs::path> inputs_in(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().filename() != list_name) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

/// The messages with which the target refuses a file.
std::vector<std::string> refusals_of(FuzzTarget& target, const fs::path& file) {
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    std::vector<std::string> messages;
    gptrain::test::refusals = &messages;
    // A copy of exactly this size, so that a sanitizer sees a read past the end.
    const std::string input = gptrain::read_file(file, 1 << 20);
    const std::vector<std::uint8_t> bytes(input.begin(), input.end());
    target(bytes.data(), bytes.size());
    gptrain::test::refusals = nullptr;
    for (const std::string& message : messages)
        std::printf("    %s\n", message.c_str());
    return messages;
}

}  // namespace

int main(int argc, char** argv) {
    const auto target = fuzz_targets.find(argc > 1 ? argv[1] : "");
    if (target == fuzz_targets.end()) return 2;
    std::size_t count = 0;
    bool right = true;
    for (int i = 2; i < argc; ++i) {
        std::map<std::string, std::string> expected = expected_in(argv[i]);
        const std::vector<fs::path> files = inputs_in(argv[i]);
        for (const fs::path& file : files) {
            const std::vector<std::string> messages = refusals_of(*target->second, file);
            const auto entry = expected.extract(file.filename().string());
            if (entry.empty()) continue;
            const bool found = std::any_of(messages.begin(), messages.end(), [&](const auto& one) {
                return one.find(entry.mapped()) != std::string::npos;
            });
            if (!found) std::printf("    MISSING: %s\n", entry.mapped().c_str());
            right = right && found;
        }
        for (const auto& [name, part] : expected)
            std::printf("%s/%s names %s, which is not there\n", argv[i], list_name, name.c_str());
        right = right && expected.empty();
        if (files.empty()) return 1;
        count += files.size();
    }
    std::printf("%zu inputs\n", count);
    return right && count > 0 ? 0 : 1;
}
