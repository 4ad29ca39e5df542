#include "tokenizer_meta.h"

#include <algorithm>

namespace gptrain {

TokenMeta meta_of(const std::filesystem::path& tokenizer_file, const Tokenizer& tokenizer) {
    TokenMeta meta;
    meta.tokenizer_file = tokenizer_file.filename().string();
    const auto is_control = [](unsigned char c) { return c < 32 || c == 127; };
    std::replace_if(meta.tokenizer_file.begin(), meta.tokenizer_file.end(), is_control, '_');
    meta.tokenizer_crc32c = tokenizer.fingerprint();
    meta.vocab_size = tokenizer.vocab_size();
    meta.program = "gptrain " GPTRAIN_VERSION;
    return meta;
}

}  // namespace gptrain
