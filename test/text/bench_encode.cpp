// Measures how fast sentencepiece itself encodes, for comparison with gpt-preprocess:
//   bench_encode MODEL FILE
// encodes each line of FILE as one document, on one thread, and prints MiB/s.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <sentencepiece_processor.h>
#include <string>
#include <vector>

int main(int argc, char** argv) {
    sentencepiece::SentencePieceProcessor processor;
    if (argc != 3 || !processor.Load(argv[1]).ok()) {
        std::cerr << "usage: bench_encode MODEL FILE\n";
        return 2;
    }
    std::vector<std::string> documents;
    std::ifstream file(argv[2]);
    for (std::string line; std::getline(file, line);)
        documents.push_back(line);

    std::int64_t bytes = 0;
    std::size_t tokens = 0;
    std::vector<int> ids;
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& document : documents) {
        if (!processor.Encode(document, &ids).ok()) return 1;
        bytes += static_cast<std::int64_t>(document.size());
        tokens += ids.size();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << static_cast<double>(bytes) / 1048576 / seconds.count() << " MiB/s, " << tokens
              << " tokens in " << seconds.count() << " s\n";
    return 0;
}
