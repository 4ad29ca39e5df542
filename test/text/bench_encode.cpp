// Measures how fast a tokenizer encodes on one thread:
//   bench_encode TOKENIZER FILE
// encodes each line of FILE as one document and prints MiB/s: gptrain's, and for a sentencepiece
// model also the library's. scripts/bench_tokenizers.py compares with other programs.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sentencepiece_processor.h>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace {

/// `encode` replaces the ids by those of a document.
void measure(const char* name, const std::vector<std::string>& documents,
             const std::function<void(const std::string&, std::vector<std::int32_t>&)>& encode) {
    std::int64_t bytes = 0;
    std::size_t tokens = 0;
    std::vector<std::int32_t> ids;
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& document : documents) {
        encode(document, ids);
        bytes += static_cast<std::int64_t>(document.size());
        tokens += ids.size();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << name << ": " << static_cast<double>(bytes) / 1048576 / seconds.count()
              << " MiB/s, " << tokens << " tokens in " << seconds.count() << " s\n";
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
