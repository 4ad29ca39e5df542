// gpt-preprocess: the command line.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/signals.h"
#include "chat/chat_template.h"
#include "comm/run_rank.h"
#include "commands.h"
#include "corpus_arguments.h"
#include "help.h"
#include "help/command_words.h"
#include "help/formats.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_count = std::int64_t{1} << 40;

/// The whole command line: the options of every subcommand, and the parser that fills them.
class CommandLine {
public:
    CommandLine() {
        app_.description(help::encode_description);
        app_.name("gpt-preprocess");
        app_.footer(text(help::input_section, help::output_section, help::faults_section,
                         help::exit_section, help::examples_section));
        app_.get_formatter()->column_width(34);
        add_encode();
        add_chat();
        add_train();
        add_merge();
        add_import();
        add_inspect();
        add_help();
        app_.set_version_flag("--version", "gpt-preprocess " GPTRAIN_VERSION);
        app_.require_subcommand(0, 1);
    }

    /// Parses and runs. Also returns after --help.
    ExitCode run(int argc, char** argv) {
        try {
            app_.parse(argc, argv);
        } catch (const CLI::ParseError& error) {
            if (error.get_exit_code() == 0) {
                std::ostringstream output;
                app_.exit(error, output);
                print_raw(output.str());
                return ExitCode::done;
            }
            const bool no_prefix = error.get_name() == "RequiredError" && inspect_app_->parsed();
            const bool unexpected = !app_.remaining(true).empty();
            fail(ExitCode::usage,
                 no_prefix ? "inspect: give the PREFIX of token files, their path without .bin or "
                             ".idx"
                 : unexpected ? unexpected_words(app_)
                              : parse_error_text(error),
                 " (gpt-preprocess --help explains)");
        }
        if (help_app_->parsed()) {
            show_help();
            return ExitCode::done;
        }
        const MpiSession ranks;
        const ExitCode code = run_rank(ranks, "gpt-preprocess", [&] {
            run_parsed(ranks);
            return ExitCode::done;
        });
        // This rank's work is done. Its exit code must reach the launcher, which ends the remaining
        // ranks once the first is gone.
        if (ranks.running()) std::signal(SIGTERM, SIG_IGN);
        return code;
    }

private:
    void add_encode() {
        encode_corpus_.add_to(app_);
        add_encoding(app_, encode_);
        app_.add_flag(
            "--append-eod", encode_.append_eod,
            "Ends each document that is not empty with the tokenizer's end-of-document id");
    }

    static void add_encoding(CLI::App& app, EncodeOptions& options) {
        app.add_option("--tokenizer", options.tokenizer,
                       "A tokenizer.json, a sentencepiece model, vocab.json\n"
                       "(with merges.txt), a tiktoken file, or their folder")
            ->type_name("TOKENIZER");
        app.add_option("--output-prefix", options.output_prefix, "Path prefix of the token files")
            ->type_name("P");
        app.add_option("--workers", options.workers, "Threads that encode (default: all cores)")
            ->check(in_range(1, 1024))
            ->type_name("N");
    }

    void add_chat() {
        ChatLineOptions& chat = chat_.chat.emplace();
        chat_app_ = app_.add_subcommand("chat", help::chat_description);
        chat_app_->footer(text(help::chat_section, help::exit_section, help::chat_examples));
        chat_corpus_.add_json_lines_to(*chat_app_);
        add_encoding(*chat_app_, chat_);
        for (const char* option : {"--input", "--tokenizer", "--output-prefix"})
            chat_app_->get_option(option)->required();
        chat_app_
            ->add_option("--template", chat.chat_template,
                         "A chat template (Jinja) or chatml, llama3, mistral or plain\n"
                         "(default: the one next to the tokenizer, if there is one)")
            ->type_name("FILE|NAME");
        const auto add_key = [&](const char* option, std::string& key, const char* help) {
            chat_app_->add_option(option, key, help)->type_name("KEY")->capture_default_str();
        };
        add_key("--messages-key", chat.keys.messages, "The key of a line's list of messages");
        add_key("--role-key", chat.keys.role, "The key of a message's role, a string");
        add_key("--content-key", chat.keys.content, "The key of a message's text");
        add_key("--prompt-key", chat.keys.prompt, "The key of a line's prompt, a string");
        add_key("--response-key", chat.keys.response, "The key of the response to it, a string");
    }

    void add_train() {
        train_app_ = app_.add_subcommand("train-tokenizer", help::train_description);
        train_app_->footer(text(help::input_section, help::faults_section, help::exit_section));
        train_corpus_.add_to(*train_app_);
        train_app_->get_option("--input")->required();
        train_app_
            ->add_option("--vocab-size", train_.training.vocab_size, "Tokens of the vocabulary")
            ->required()
            ->type_name("N");
        train_app_->add_option("--model-prefix", train_.model_prefix, "Writes P.json or P.model")
            ->required()
            ->type_name("P");
        train_app_
            ->add_option("--type,--model-type", type_,
                         "byte-bpe: byte-level BPE (P.json);\n"
                         "bpe, unigram: sentencepiece (P.model)")
            ->check(one_of({"byte-bpe", "bpe", "unigram"}))
            ->type_name("byte-bpe|bpe|unigram")
            ->capture_default_str();
        max_lines_option_ =
            train_app_
                ->add_option("--max-lines", train_.training.max_lines,
                             "bpe, unigram: train on a random sample of N lines; limits memory")
                ->check(in_range(101, max_count))
                ->type_name("N")
                ->capture_default_str();
    }

    void add_merge() {
        merge_app_ = app_.add_subcommand("merge", help::merge_description);
        merge_app_->footer(help::exit_section);
        merge_app_->add_option("--input", merge_.inputs, "Prefixes of token files")
            ->required()
            ->type_name("PREFIX");
        merge_app_->add_option("--output-prefix", merge_.output_prefix, "Writes P.bin and P.idx")
            ->required()
            ->type_name("P");
    }

    void add_import() {
        import_app_ = app_.add_subcommand("import", help::import_description);
        import_app_->footer(help::exit_section);
        import_app_->add_option("--input", import_.inputs, "Files of tokens, in this order")
            ->required()
            ->type_name("FILE");
        import_app_
            ->add_option("--tokenizer", import_.tokenizer, "The tokenizer that made the files")
            ->required()
            ->type_name("TOKENIZER");
        import_app_->add_option("--output-prefix", import_.output_prefix, "Writes P.bin and P.idx")
            ->required()
            ->type_name("P");
        import_app_
            ->add_option("--raw", raw_, "The files have no header, but ids of this type alone")
            ->check(one_of({"uint16", "uint32"}))
            ->type_name("uint16|uint32");
    }

    void add_inspect() {
        inspect_app_ = app_.add_subcommand("inspect", help::inspect_description);
        inspect_app_->footer(help::exit_section);
        inspect_app_->add_option("prefix", inspect_.prefix, "The files without .bin and .idx")
            ->required()
            ->type_name("PREFIX");
        inspect_app_->add_option("--tokenizer", inspect_.tokenizer, "Shows the sample as text")
            ->type_name("TOKENIZER");
        inspect_app_->add_option("--document", inspect_.document, "The document to sample, from 0")
            ->check(in_range(0, max_count))
            ->type_name("N")
            ->capture_default_str();
        inspect_app_->add_option("--sample-tokens", inspect_.sample_tokens, "Length of the sample")
            ->check(in_range(0, max_count))
            ->type_name("N")
            ->capture_default_str();
    }

    void add_help() {
        help_app_ = app_.add_subcommand("help", help::help_description);
        add_help_format(*help_app_, help_format_);
    }

    void show_help() const {
        reject_misplaced_options();
        if (help_format_ == "text") {
            print_raw(to_help_text(app_));
            return;
        }
        ProgramHelp help;
        help.command = command_help(app_);
        help.summary = "turn text into token files for gptrain";
        help.version = "gptrain " GPTRAIN_VERSION;
        help.date = GPTRAIN_DATE;
        help.sections = {{"See also", help::see_also_section}};
        help.words = {{"--template", template_words()}};
        print_raw(to_format(help_format_, help));
    }

    static std::vector<std::string> template_words() {
        std::vector<std::string> names;
        for (const NamedTemplate& one : named_templates())
            names.emplace_back(one.name);
        return names;
    }

    void run_parsed(const MpiSession& ranks) {
        if (ranks.size() > 1 && !app_.get_subcommands().empty() && !chat_app_->parsed()) {
            throw CommonError(ExitCode::usage, text(app_.get_subcommands().front()->get_name(),
                                                    " runs as one process, not ", ranks.size(),
                                                    "; start it without a launcher"));
        }
        if (!app_.get_subcommands().empty()) {
            ranks.run_on_all([&] { reject_misplaced_options(); });
        }
        if (chat_app_->parsed()) {
            ranks.run_on_all(
                [&] { chat_.corpus = chat_corpus_.resolved_json_lines(chat_.tokenizer); });
            encode(chat_, ranks);
        } else if (train_app_->parsed()) {
            train_.corpus = train_corpus_.resolved();
            train_.training.kind = type_ == "bpe"       ? TokenizerTraining::Kind::bpe
                                   : type_ == "unigram" ? TokenizerTraining::Kind::unigram
                                                        : TokenizerTraining::Kind::byte_bpe;
            if (type_ == "byte-bpe" && max_lines_option_->count() > 0)
                fail(ExitCode::usage, "--max-lines applies to --type bpe and unigram");
            train_tokenizer_files(train_);
        } else if (merge_app_->parsed()) {
            merge_token_files(merge_);
        } else if (import_app_->parsed()) {
            if (!raw_.empty()) import_.raw_bytes = raw_ == "uint16" ? 2 : 4;
            import_token_files(import_);
        } else if (inspect_app_->parsed()) {
            inspect_token_files(inspect_);
        } else {
            ranks.run_on_all([&] { prepare_encode(); });
            encode(encode_, ranks);
        }
    }

    void prepare_encode() {
        encode_.corpus = encode_corpus_.resolved(encode_.tokenizer);
        for (const std::string option : {"--input", "--tokenizer", "--output-prefix"}) {
            if (app_.get_option(option)->count() == 0) {
                fail(ExitCode::usage, option, " is required (gpt-preprocess --help explains)");
            }
        }
    }

    static void encode(const EncodeOptions& options, const MpiSession& ranks) {
        try {
            encode_corpus(options, ranks);
        } catch (const std::bad_alloc&) {
            fail(ExitCode::usage, out_of_memory(),
                 "; use fewer --workers or a smaller --max-document-bytes");
        }
    }

    void reject_misplaced_options() const {
        if (const std::string fault = misplaced_option(app_); !fault.empty())
            fail(ExitCode::usage, fault);
    }

    CLI::App app_;
    CLI::App* chat_app_ = nullptr;
    CLI::App* train_app_ = nullptr;
    CLI::App* merge_app_ = nullptr;
    CLI::App* import_app_ = nullptr;
    CLI::App* inspect_app_ = nullptr;
    CLI::App* help_app_ = nullptr;
    std::string help_format_;
    CorpusArguments encode_corpus_;
    EncodeOptions encode_;
    CorpusArguments chat_corpus_;
    EncodeOptions chat_;
    CorpusArguments train_corpus_;
    TrainTokenizerOptions train_;
    std::string type_ = "byte-bpe";
    CLI::Option* max_lines_option_ = nullptr;
    MergeOptions merge_;
    ImportOptions import_;
    std::string raw_;
    InspectOptions inspect_;
};

int run(int argc, char** argv) {
    end_on_signals({.before = "gpt-preprocess: error: interrupted by ",
                    .after = "; unfinished files were removed",
                    .code = std::nullopt});
    end_on_lost_mapping("gpt-preprocess: error: ");
    try {
        start_process("gpt-preprocess");
        const ExitCode code = CommandLine().run(argc, argv);
        if (code == ExitCode::done) check_output();
        return static_cast<int>(code);
    } catch (const std::exception& error) {
        const Failure failure = failure_of(error);
        error_line("gpt-preprocess", failure.message);
        return static_cast<int>(failure.code);
    }
}

}  // namespace
}  // namespace gptrain

int main(int argc, char** argv) {
    return gptrain::run(argc, argv);
}
