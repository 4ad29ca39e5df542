// Measures how fast a tokenizer encodes on one thread:
//   bench_encode TOKENIZER FILE
// encodes each line of FILE as one document, three times, and prints the best MiB/s of CPU time:
// gptrain's, and for a sentencepiece model also the library's. scripts/bench_tokenizers.py compares
// with other programs.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sentencepiece_processor.h>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace {

constexpr int rounds = 3;

/// `encode` replaces the ids by those of a document.
void measure(const char* name, const std::vector<std::string>& documents,
             const std::function<void(const std::string&, std::vector<std::int32_t>&)>& encode) {
    double best = 1e30;
    std::int64_t bytes = 0;
    std::size_t tokens = 0;
    std::vector<std::int32_t> ids;
    for (int round = 0; round < rounds; ++round) {
        bytes = 0;
        tokens = 0;
        const std::clock_t start = std::clock();
        for (const std::string& document : documents) {
            encode(document, ids);
            bytes += static_cast<std::int64_t>(document.size());
            tokens += ids.size();
        }
        best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    std::cout << name << ": " << static_cast<double>(bytes) / 1048576 / best << " MiB/s, " << tokens
              << " tokens in " << best << " s\n";
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: bench_encode TOKENIZER FILE\n";
        return 2;
    }
    std::vector<std::string> documents;
    std::ifstream file(argv[2]);
    for (std::string line; std::getline(file, line);)
        documents.push_back(line);

    const gptrain::Tokenizer tokenizer{std::filesystem::path(argv[1])};
    measure("gptrain", documents, [&](const std::string& text, std::vector<std::int32_t>& ids) {
        ids.clear();
        tokenizer.encode(text, ids);
    });
    sentencepiece::SentencePieceProcessor library;
    if (!std::string_view(argv[1]).ends_with(".model") || !library.Load(argv[1]).ok()) return 0;
    measure("sentencepiece", documents,
            [&](const std::string& text, std::vector<std::int32_t>& ids) {
                if (!library.Encode(text, &ids).ok()) std::abort();
            });
    return 0;
}
