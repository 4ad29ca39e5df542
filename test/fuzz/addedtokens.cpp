// added_tokens.json and special_tokens_map.json, separated by NUL, next to a vocabulary that is
// good; without a second part there is no special_tokens_map.json. Converted and, if they are
// accepted, used.
#include <algorithm>

#include "base/json.h"
#include "fuzz/target.h"
#include "fuzz/used_tokenizer.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer_files.h"

using namespace gptrain;

namespace {

/// A token for each byte, and "th".
std::string make_vocabulary() {
    Json tokens = Json::object();
    for (int byte = 0; byte < 256; ++byte)
        tokens[spelling_of_bytes(std::string(1, static_cast<char>(byte)))] = byte;
    tokens["th"] = 256;
    return to_line(tokens);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const std::string vocabulary = make_vocabulary();
    const std::string_view text = test::as_text(bytes, size);
    const std::size_t end = std::min(text.find('\0'), text.size());
    VocabularyFiles files = {
        .vocabulary = {vocabulary, "files/vocab.json"},
        .merges = {"t h\n", "files/merges.txt"},
        .added = {std::string(text.substr(0, end)), "files/added_tokens.json"}};
    if (end < text.size())
        files.special = {std::string(text.substr(end + 1)), "files/special_tokens_map.json"};
    test::accepts(ExitCode::bad_input, "files/", [&] {
        test::use_tokenizer(Tokenizer(convert_vocabulary(files), "files/vocab.json"));
    });
    return 0;
}
