// vocab.json, merges.txt and tokenizer_config.json, separated by NUL; without a third part there is
// no tokenizer_config.json. The files are converted and, if accepted, used.
#include <algorithm>

#include "fuzz/target.h"
#include "fuzz/used_tokenizer.h"
#include "tokenizer/tokenizer_files.h"

using namespace gptrain;

namespace {

/// Up to the next NUL, which `rest` loses with it.
std::string take_part(std::string_view& rest) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    std::string part(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return part;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    std::string_view rest = test::as_text(bytes, size);
    VocabularyFiles files;
    files.vocabulary = {take_part(rest), "files/vocab.json"};
    files.merges = {take_part(rest), "files/merges.txt"};
    if (!rest.empty()) files.config = {std::string(rest), "files/tokenizer_config.json"};
    test::accepts(ExitCode::bad_input, "files/", [&] {
        test::use_tokenizer(Tokenizer(convert_vocabulary(files), "files/vocab.json"));
    });
    return 0;
}
