#include "infer/exported_tokenizer.h"

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "chat/chat_template.h"
#include "interop/hf_folder.h"
#include "interop/sentencepiece_json.h"

namespace gptrain {
namespace {

std::vector<NamedFile> files_in(const std::filesystem::path& folder) {
    std::vector<NamedFile> files;
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored))
        fail(ExitCode::usage, "--tokenizer-from ", folder.string(), ": no such folder");
    for (const std::string_view name : shared_tokenizer_names) {
        if (std::filesystem::exists(folder / name, ignored))
            files.push_back({std::string(name), read_file(folder / name, max_hf_file_bytes)});
    }
    if (files.empty())
        fail(ExitCode::usage, "--tokenizer-from ", folder.string(), ": has no tokenizer file");
    return files;
}

/// Null if there is none.
const std::string* find_file(const std::vector<NamedFile>& files, std::string_view name) {
    const auto found = std::ranges::find(files, name, &NamedFile::name);
    return found == files.end() ? nullptr : &found->contents;
}

bool has(const std::vector<NamedFile>& files, std::string_view name) {
    return find_file(files, name) != nullptr;
}

/// An object; without members if there is no such file.
Json json_of(const std::vector<NamedFile>& files, const std::string& name) {
    const std::string* contents = find_file(files, name);
    Json json = contents == nullptr ? Json::object() : parse_json(*contents, name);
    return json.is_object() ? json : Json::object();
}

/// Replaces the file of that name, if there is one.
void put_file(std::vector<NamedFile>& files, std::string name, std::string contents) {
    std::erase_if(files, [&](const NamedFile& file) { return file.name == name; });
    files.push_back({std::move(name), std::move(contents)});
}

/// The files of the folder `from`, or of the checkpoint if that is empty. The chat template of the
/// checkpoint comes first.
std::vector<NamedFile> shared_files(const InferenceRun& run, const std::filesystem::path& from) {
    std::vector<NamedFile> files;
    if (run.source.hf() != nullptr) run.source.checkpoint();  // an Error: there is no run to export
    const auto take = [&](std::string_view name) {
        auto contents = run.source.whole_file(std::string(name), max_hf_file_bytes);
        if (contents) put_file(files, std::string(name), *std::move(contents));
    };
    if (from.empty()) {
        for (const std::string_view name : shared_tokenizer_names)
            take(name);
    } else {
        files = files_in(from);
        take(chat_template_name);
    }
    return files;
}

bool lacks(const Json& config, const char* key) {
    return !config.contains(key) || config.at(key).is_null();
}

/// Some programs prefer the template in tokenizer_config.json to that in chat_template.jinja.
void drop_other_template(std::vector<NamedFile>& files) {
    Json config = json_of(files, "tokenizer_config.json");
    const std::string* used = find_file(files, chat_template_name);
    if (used == nullptr || lacks(config, "chat_template") || config["chat_template"] == *used)
        return;
    config.erase("chat_template");
    put_file(files, "tokenizer_config.json", to_document(config));
}

/// Adds to a tokenizer_config.json what it lacks.
void complete(Json& config, const std::string& added) {
    const Json wanted = parse_json(added, "tokenizer_config.json");
    for (const auto& [key, value] : wanted.items())
        if (lacks(config, key.c_str())) config[key] = value;
}

/// Without a class transformers takes that of the model, which splits texts in its own way.
void name_class(HfTokenizer& tokenizer, const TokenizerFile& file, std::int64_t max_length) {
    Json config = json_of(tokenizer.files, "tokenizer_config.json");
    if (!has(tokenizer.files, "tokenizer.json") || !lacks(config, "tokenizer_class")) return;
    const Tokenizer own(file);
    const auto spelled = [&](const std::optional<std::int64_t>& id) -> std::string_view {
        if (!id) return {};
        const std::string_view mark = own.mark(narrow<std::int32_t>(*id));
        return mark.empty() ? own.bytes(narrow<std::int32_t>(*id)) : mark;
    };
    complete(config, tokenizer_config(
                         {.bos = spelled(tokenizer.ids.bos), .eos = spelled(tokenizer.ids.eos)},
                         max_length));
    put_file(tokenizer.files, "tokenizer_config.json", to_document(config));
}

/// For a sentencepiece model of gpt-preprocess, which transformers would misread, there is a
/// tokenizer.json. The model itself gets a name that only gptrain knows. transformers reads one of
/// Llama's kind if it is told the class.
void convert_model(HfTokenizer& tokenizer, const TokenizerFile& file, std::int64_t max_length) {
    const auto own = tokenizer_files(file.bytes, file.source, max_length);
    if (own) {
        std::erase_if(tokenizer.files,
                      [](const NamedFile& one) { return one.name == "tokenizer.model"; });
        put_file(tokenizer.files, std::string(exported_sentencepiece_name), file.bytes);
    }
    if (has(tokenizer.files, "tokenizer.json")) return;
    Json config = json_of(tokenizer.files, "tokenizer_config.json");
    if (own) {
        put_file(tokenizer.files, "tokenizer.json", own->tokenizer_json);
        config.update(parse_json(own->tokenizer_config, "tokenizer_config.json"));
        put_file(tokenizer.files, "tokenizer_config.json", to_document(config));
    } else if (lacks(config, "tokenizer_class")) {
        const auto of_llama = llama_tokenizer_config(file.bytes, file.source, max_length);
        if (!of_llama) {
            warn(file.source,
                 ": transformers will misread this sentencepiece model without a "
                 "tokenizer_config.json that names its tokenizer_class");
            return;
        }
        complete(config, *of_llama);
        put_file(tokenizer.files, "tokenizer_config.json", to_document(config));
    }
}

std::string chat_template(const std::vector<NamedFile>& files, const Json& config) {
    if (const std::string* file = find_file(files, chat_template_name)) return *file;
    return template_in_config(config, "tokenizer_config.json");
}

/// The ids in the generation_config.json of an imported model, else the tokenizer's.
SpecialIds ids_of(const InferenceRun& run, const Tokenizer& own) {
    HfTokenizer kept = {.files = {}, .ids = {own.bos_id(), own.eos_id()}};
    if (run.plan.end_of_document.id) kept.ids.eos = run.plan.end_of_document.id;
    add_generation_config(run, kept);
    return kept.ids;
}

/// A folder's tokenizer; none if gptrain cannot read it. Error (usage) if it is too large.
std::optional<TokenizerFile> tokenizer_in(const std::filesystem::path& from, std::int64_t vocab) {
    try {
        TokenizerFile file = read_tokenizer(from);
        const std::int64_t size = Tokenizer(file).vocab_size();
        if (size > vocab) {
            fail(ExitCode::usage, "--tokenizer-from ", from.string(), ": has ", size,
                 " tokens, but the model has only ", vocab);
        }
        return file;
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_input) throw;
        warn(error.what(), "; the export does not know the tokenizer's size and end token");
        return std::nullopt;
    }
}

/// The run's own tokenizer; none if the checkpoint has none.
std::optional<TokenizerFile> saved_tokenizer_of(const InferenceRun& run) {
    const auto& bytes = run.tokenizer.bytes();
    if (!bytes) return std::nullopt;
    return TokenizerFile{*bytes, (run.source.folder() / tokenizer_file_name(*bytes)).string(), ""};
}

}  // namespace

bool HfTokenizer::is_there() const {
    return std::any_of(files.begin(), files.end(),
                       [](const auto& file) { return file.name != chat_template_name; });
}

HfTokenizer hf_tokenizer(const InferenceRun& run, const std::filesystem::path& from) {
    HfTokenizer tokenizer;
    tokenizer.files = shared_files(run, from);
    drop_other_template(tokenizer.files);
    const auto file =
        from.empty() ? saved_tokenizer_of(run) : tokenizer_in(from, run.plan.model.vocab);
    if (file) {
        const std::int64_t max_length = run.plan.model.max_positions;
        const Tokenizer own(*file);
        tokenizer.ids = {own.bos_id(), own.eos_id()};
        if (!tokenizer.is_there()) tokenizer.files.push_back({"tokenizer.model", file->bytes});
        if (tokenizer_file_name(file->bytes) == "tokenizer.model")
            convert_model(tokenizer, *file, max_length);
    }
    if (run.plan.end_of_document.id) tokenizer.ids.eos = run.plan.end_of_document.id;
    if (file) name_class(tokenizer, *file, run.plan.model.max_positions);
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
    Json config = parse_json(*kept, source);
    SpecialIds ids = special_ids(config, source, run.plan.model.vocab);
    if (!ids.bos) ids.bos = tokenizer.ids.bos;
    const bool adds_eos = lacks(config, "eos_token_id") && tokenizer.ids.eos;
    if (adds_eos) config["eos_token_id"] = *tokenizer.ids.eos;
    if (!ids.eos) ids.eos = tokenizer.ids.eos;
    tokenizer.ids = ids;
    tokenizer.files.push_back({name, adds_eos ? to_document(config) : *kept});
}

GgufTokenizer gguf_tokenizer(const InferenceRun& run, const std::filesystem::path& from) {
    GgufTokenizer tokenizer;
    std::string eos_token;
    const std::vector<NamedFile> files = shared_files(run, from);
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
    const Tokenizer own(TokenizerFile{tokenizer.bytes, tokenizer.source, eos_token});
    tokenizer.ids = ids_of(run, own);
    tokenizer.add_bos = adds_bos(own, config, json_of(files, "tokenizer.json"));
    tokenizer.chat_template = chat_template(files, config);
    return tokenizer;
}

}  // namespace gptrain
