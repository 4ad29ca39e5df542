#include "corpus_arguments.h"

#include <utility>

#include "help/option_checks.h"

namespace gptrain {

CLI::Validator one_of(std::vector<std::string> words) {
    return CLI::IsMember(std::move(words)).description("");
}

CLI::Validator in_range(std::int64_t low, std::int64_t high) {
    return whole_number(low, high).description("");
}

void CorpusArguments::add_to(CLI::App& app) {
    add_input(app,
              "Corpus files, or folders of .parquet, .jsonl, .json and\n"
              ".txt files (the latter also with .gz or .zst), read in\n"
              "this order; - reads stdin");
    app.add_option("--format", format,
                   "auto: .jsonl, .json, .ndjson and .jsonlines (also with\n"
                   ".gz or .zst) are JSON lines, other files plain text;\n"
                   "jsonl or text: all but .parquet are")
        ->check(one_of({"auto", "jsonl", "text"}))
        ->type_name("auto|jsonl|text")
        ->capture_default_str();
    json_key_option = app.add_option("--json-key", options.documents.json_key,
                                     "JSON lines, Parquet: the key or column of the text")
                          ->type_name("KEY")
                          ->capture_default_str();
    documents_option = app.add_option("--documents", documents,
                                      "Plain text: documents are paragraphs (separated by\n"
                                      "blank lines), non-blank lines, or whole files")
                           ->check(one_of({"paragraph", "line", "file"}))
                           ->type_name("paragraph|line|file")
                           ->capture_default_str();
    add_fault_options(app);
}

void CorpusArguments::add_json_lines_to(CLI::App& app) {
    add_input(app,
              "Files of JSON lines or Parquet, or folders of .jsonl, .json\n"
              "(also with .gz or .zst) and .parquet files, read in this\n"
              "order; - reads stdin");
    add_fault_options(app);
}

void CorpusArguments::add_input(CLI::App& app, const char* help) {
    app.add_option("--input", options.inputs, help)->type_name("FILE");
    app.add_option(
           "--split", options.folders.split,
           "Of a folder that holds a data set with several\nsplits: the one to read, or all")
        ->type_name("NAME");
    app.add_option(
           "--subset", options.folders.subset,
           "Of a data set with several subsets (configs of its\nREADME.md): the one to read")
        ->type_name("NAME");
}

void CorpusArguments::add_fault_options(CLI::App& app) {
    app.add_option("--on-error", on_error,
                   "stop: a faulty document ends the run, which writes\n"
                   "nothing; skip: skips, reports and counts it")
        ->check(one_of({"stop", "skip"}))
        ->type_name("stop|skip")
        ->capture_default_str();
    app.add_option("--max-document-bytes", options.documents.max_document_bytes,
                   "A longer JSON line or plain-text document is faulty;\n"
                   "it is never read into memory")
        ->check(in_range(1, std::int64_t{1} << 30))
        ->type_name("N")
        ->capture_default_str();
}

CorpusOptions CorpusArguments::resolved(const std::string& tokenizer) const {
    CorpusOptions corpus = options;
    expand_inputs(corpus, CorpusFiles::all, tokenizer);
    corpus.format = format == "jsonl"  ? InputFormat::json_lines
                    : format == "text" ? InputFormat::plain_text
                                       : InputFormat::by_name;
    corpus.documents.documents = documents == "line"   ? RecordUnit::line
                                 : documents == "file" ? RecordUnit::file
                                                       : RecordUnit::paragraph;
    corpus.skip_faulty = on_error == "skip";
    corpus.json_key_given = json_key_option->count() > 0;
    corpus.documents_given = documents_option->count() > 0;
    return corpus;
}

CorpusOptions CorpusArguments::resolved_json_lines(const std::string& tokenizer) const {
    CorpusOptions corpus = options;
    expand_inputs(corpus, CorpusFiles::json_lines, tokenizer);
    corpus.format = InputFormat::json_lines;
    corpus.documents.whole_rows = true;
    corpus.skip_faulty = on_error == "skip";
    return corpus;
}

}  // namespace gptrain
