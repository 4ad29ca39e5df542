#include "infer/run_tokenizer.h"

#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "stored/saved_run.h"

namespace gptrain {

RunTokenizer::RunTokenizer(const ModelSource& source, const RunSpec& spec,
                           const std::filesystem::path& given, const MpiSession& ranks) {
    const ModelSource& whole = source.whole();
    if (whole.is_checkpoint()) {
        read_saved(whole.checkpoint(), spec, given, ranks);
    } else {
        ranks.run_on_all([&] { read_folder_tokenizer(*whole.hf(), given, ranks.rank() == 0); });
    }
}

void RunTokenizer::read_folder_tokenizer(const HfFolder& folder, const std::filesystem::path& given,
                                         bool may_warn) {
    FolderTokenizer own;
    if (given.empty()) {
        own = folder_tokenizer(folder);
    } else {
        own = {.bytes = read_tokenizer(given).bytes, .source = given.string(), .fault = {}};
    }
    if (!own.fault.empty()) {
        if (may_warn) warn(own.fault, "; the model reads and writes token ids");
        return;
    }
    fingerprint_ = text(crc32c(own.bytes.data(), own.bytes.size()));
    bytes_ = std::move(own.bytes);
    source_ = std::move(own.source);
}

void RunTokenizer::read_saved(const RestartPoint& checkpoint, const RunSpec& spec,
                              const std::filesystem::path& given, const MpiSession& ranks) {
    // An imported model may have both; only one of them is its tokenizer.
    std::string name;
    std::optional<std::string> saved;
    ranks.run_on_all([&] { fingerprint_ = saved_tokenizer(checkpoint.meta()); });
    for (const std::string_view candidate : checkpoint_tokenizer_names) {
        if (fingerprint_.empty() || (saved && is_right(*saved))) break;
        if (auto bytes = checkpoint.whole_file(std::string(candidate), max_tokenizer_bytes)) {
            name = candidate;
            saved = std::move(bytes);
        }
    }
    ranks.run_on_all([&] {
        if (saved) {
            source_ = (checkpoint.folder() / name).string();
            if (!is_right(*saved)) {
                fail(ExitCode::bad_input, source_,
                     ": does not match the tokenizer in the manifest's identity");
            }
            bytes_ = saved;
        } else if (spec.data.tokenizer) {
            source_ = spec.data.tokenizer->string();
        }
        if (!given.empty()) take(given, saved);
    });
}

void RunTokenizer::take(const std::filesystem::path& given,
                        const std::optional<std::string>& saved) {
    if (fingerprint_.empty()) {
        fail(ExitCode::usage, "--tokenizer ", given.string(),
             ": the model was trained without a tokenizer; remove it");
    }
    std::string bytes = read_tokenizer(given).bytes;
    if (saved && bytes != *saved) {
        fail(ExitCode::usage, "--tokenizer ", given.string(), ": is not the tokenizer that the ",
             "model was trained with, which is ", source_, "; remove it");
    }
    check(bytes, text("--tokenizer ", given.string()));
    bytes_ = std::move(bytes);
    source_ = given.string();
}

bool RunTokenizer::is_right(std::string_view bytes) const {
    return text(crc32c(bytes.data(), bytes.size())) == fingerprint_;
}

void RunTokenizer::check(std::string_view bytes, const std::string& source) const {
    if (is_right(bytes)) return;
    fail(ExitCode::usage, source,
         ": is not the tokenizer that the model was trained with, whose CRC-32C was ", fingerprint_,
         "; pass that one with --tokenizer FILE");
}

std::optional<Tokenizer> RunTokenizer::open() const {
    if (fingerprint_.empty()) return std::nullopt;
    if (bytes_) return Tokenizer(*bytes_, source_);
    std::error_code error;
    if (!std::filesystem::exists(source_, error)) {
        fail(ExitCode::bad_input, source_,
             ": tokenizer not found, and this older checkpoint does not include it; pass it with "
             "--tokenizer FILE");
    }
    const std::string bytes = read_tokenizer(source_).bytes;
    check(bytes, source_);
    return Tokenizer(bytes, source_);
}

std::optional<ExpectedTokenizer> RunTokenizer::expected() const {
    if (fingerprint_.empty()) return std::nullopt;
    return ExpectedTokenizer{"the tokenizer that the model was trained with", fingerprint_};
}

FolderTokenizer folder_tokenizer(const HfFolder& folder) {
    std::string faults;
    const auto add_fault = [&](const auto&... parts) {
        faults += text(faults.empty() ? "" : "; ", parts...);
    };
    for (const std::filesystem::path& path : tokenizers_in(folder.path())) {
        try {
            TokenizerFile file = read_tokenizer(path);
            const std::int64_t pieces = Tokenizer(file).vocab_size();
            if (pieces <= folder.shape().vocab) {
                warn_of_other_tokenizer(faults, path);
                return {.bytes = std::move(file.bytes), .source = path.string(), .fault = {}};
            }
            add_fault(path.string(), ": has ", pieces, " tokens, but the model has only ",
                      folder.shape().vocab);
        } catch (const Error& error) {
            if (error.code() != ExitCode::bad_input) throw;
            add_fault(error.what());
        }
    }
    if (faults.empty()) add_fault(folder.path().string(), ": has no tokenizer");
    return {.bytes = {}, .source = {}, .fault = std::move(faults)};
}

}  // namespace gptrain
