#include "infer/exported_tokenizer.h"

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "interop/hf_folder.h"
#include "interop/tokenizer_json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace gptrain {
namespace {

std::vector<NamedFile> files_in(const std::filesystem::path& folder) {
    std::vector<NamedFile> files;
    for (const std::string_view name : hf_tokenizer_names) {
        std::error_code ignored;
        if (std::filesystem::exists(folder / name, ignored))
            files.push_back({std::string(name), read_file(folder / name, max_hf_file_bytes)});
    }
    if (files.empty())
        fail(ExitCode::usage, "--tokenizer-from ", folder.string(), ": has no tokenizer file");
    return files;
}

std::vector<NamedFile> files_in(const RestartPoint& checkpoint) {
    std::vector<NamedFile> files;
    for (const std::string_view name : hf_tokenizer_names) {
        if (auto contents = checkpoint.whole_file(std::string(name), max_hf_file_bytes))
            files.push_back({std::string(name), *std::move(contents)});
    }
    return files;
}

/// Null if there is none.
const std::string* find_file(const std::vector<NamedFile>& files, std::string_view name) {
    const auto found = std::find_if(files.begin(), files.end(),
                                    [&](const auto& file) { return file.name == name; });
    return found == files.end() ? nullptr : &found->contents;
}

bool has(const std::vector<NamedFile>& files, std::string_view name) {
    return find_file(files, name) != nullptr;
}

/// A tokenizer.json that came without its configuration, as gpt-preprocess trains them, gets one.
void add_tokenizer_config(const InferenceRun& run, HfTokenizer& tokenizer) {
    const bool alone =
        has(tokenizer.files, "tokenizer.json") && !has(tokenizer.files, "tokenizer_config.json");
    const auto own = alone ? run.tokenizer.open() : std::nullopt;
    if (!own) return;
    tokenizer.ids.eos = own->eos_id();
    const Json json = parse_json(*run.tokenizer.bytes(), "tokenizer.json");
    std::string eos;
    for (const Json& token : json.value("added_tokens", Json::array()))
        if (token.value("id", -1) == own->eos_id()) eos = token.value("content", "");
    tokenizer.files.push_back(
        {"tokenizer_config.json", tokenizer_config({.eos = eos}, run.plan.model.max_positions)});
}

/// The model file of the run itself becomes tokenizer.json: transformers would misread it.
void convert_own_model(const InferenceRun& run, HfTokenizer& tokenizer) {
    const auto& bytes = run.tokenizer.bytes();
    if (!bytes || has(tokenizer.files, "tokenizer.json")) return;
    const auto own = tokenizer_files(*bytes, (run.source.folder() / "tokenizer.model").string(),
                                     run.plan.model.max_positions);
    if (!own) return;
    tokenizer.files = {{"tokenizer.json", own->tokenizer_json},
                       {"tokenizer_config.json", own->tokenizer_config}};
    tokenizer.ids = own->ids;
}

/// An object; without members if there is no such file.
Json json_of(const std::vector<NamedFile>& files, const std::string& name) {
    const std::string* contents = find_file(files, name);
    Json json = contents == nullptr ? Json::object() : parse_json(*contents, name);
    return json.is_object() ? json : Json::object();
}

/// True if the part of a tokenizer.json that adds special tokens puts one before a text.
bool begins_with_special(const Json& processor) {
    if (!processor.is_object()) return false;
    const Json parts = processor.value("processors", Json::array());
    if (std::any_of(parts.begin(), parts.end(), begins_with_special)) return true;
    const Json single = processor.value("single", Json::array());
    return single.is_array() && !single.empty() && single.front().contains("SpecialToken");
}

bool adds_bos(const std::vector<NamedFile>& files, const Json& config) {
    if (config.contains("add_bos_token") && config.at("add_bos_token").is_boolean())
        return config.at("add_bos_token").get<bool>();
    return begins_with_special(json_of(files, "tokenizer.json").value("post_processor", Json()));
}

std::string chat_template(const std::vector<NamedFile>& files, const Json& config) {
    if (const std::string* file = find_file(files, "chat_template.jinja")) return *file;
    return template_in_config(config, "tokenizer_config.json");
}

/// The ids in the generation_config.json of an imported model, else the tokenizer's.
SpecialIds ids_of(const InferenceRun& run, const GgufTokenizer& tokenizer,
                  const std::string& eos_token) {
    const Tokenizer own(TokenizerFile{tokenizer.bytes, tokenizer.source, eos_token});
    HfTokenizer kept = {.files = {}, .ids = {own.bos_id(), own.eos_id()}};
    if (run.plan.end_of_document.id) kept.ids.eos = run.plan.end_of_document.id;
    const SpecialIds fallback = kept.ids;
    add_generation_config(run, kept);
    return {kept.ids.bos ? kept.ids.bos : fallback.bos, kept.ids.eos ? kept.ids.eos : fallback.eos};
}

/// The ids of special tokens in a folder's tokenizer; none if gptrain cannot read it.
SpecialIds ids_in(const std::filesystem::path& from, std::int64_t vocab) {
    std::optional<Tokenizer> tokenizer;
    try {
        tokenizer.emplace(read_tokenizer(from));
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_input) throw;
        warn(error.what(), "; the export does not know the tokenizer's size and end token");
        return {};
    }
    if (tokenizer->vocab_size() > vocab) {
        fail(ExitCode::usage, "--tokenizer-from ", from.string(), ": has ", tokenizer->vocab_size(),
             " tokens, but the model has only ", vocab);
    }
    return {tokenizer->bos_id(), tokenizer->eos_id()};
}

}  // namespace

HfTokenizer hf_tokenizer(const InferenceRun& run, const std::filesystem::path& from) {
    HfTokenizer tokenizer;
    if (from.empty()) {
        tokenizer.files = files_in(run.source.checkpoint());
        const auto& bytes = run.tokenizer.bytes();
        if (bytes && tokenizer.files.empty())
            tokenizer.files.push_back({"tokenizer.model", *bytes});
        convert_own_model(run, tokenizer);
        add_tokenizer_config(run, tokenizer);
    } else {
        tokenizer.files = files_in(from);
        tokenizer.ids = ids_in(from, run.plan.model.vocab);
    }
    if (run.plan.end_of_document.id) tokenizer.ids.eos = run.plan.end_of_document.id;
    return tokenizer;
}

void add_generation_config(const InferenceRun& run, HfTokenizer& tokenizer) {
    const std::string name(hf_generation_name);
    const auto kept = run.source.whole_file(name, max_hf_file_bytes);
    if (!kept) {
        tokenizer.files.push_back({name, generation_config(tokenizer.ids)});
        return;
    }
    const std::string source = (run.source.folder() / name).string();
    tokenizer.ids = special_ids(parse_json(*kept, source), source, run.plan.model.vocab);
    tokenizer.files.push_back({name, *kept});
}

GgufTokenizer gguf_tokenizer(const InferenceRun& run, const std::filesystem::path& from) {
    GgufTokenizer tokenizer;
    std::string eos_token;
    const std::vector<NamedFile> files =
        from.empty() ? files_in(run.source.checkpoint()) : files_in(from);
    if (!from.empty()) {
        TokenizerFile file = read_tokenizer(from);
        tokenizer.bytes = std::move(file.bytes);
        tokenizer.source = file.source;
        eos_token = file.eos_token;
    } else if (const auto& bytes = run.tokenizer.bytes()) {
        tokenizer.bytes = *bytes;
        tokenizer.source = (run.source.folder() / tokenizer_file_name(*bytes)).string();
    } else {
        return tokenizer;
    }
    const Json config = json_of(files, "tokenizer_config.json");
    tokenizer.ids = ids_of(run, tokenizer, eos_token);
    tokenizer.add_bos = adds_bos(files, config);
    tokenizer.chat_template = chat_template(files, config);
    return tokenizer;
}

}  // namespace gptrain
