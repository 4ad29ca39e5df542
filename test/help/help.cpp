// Command lines as data, man pages and completions. test/program/help.sh tries them in shells.
#include <CLI/CLI.hpp>
#include <catch.h>
#include <optional>
#include <string>
#include <string_view>

#include "help/formats.h"
#include "help/value_choices.h"

namespace gptrain::test {
namespace {

/// A program with one option of each kind.
struct Sample {
    CLI::App app{"Trains things.\n\n  sample --config RUN.yaml\n\nThe second paragraph.", "sample"};
    std::string config;
    std::string resume = "auto";
    std::vector<std::string> settings;
    std::string file;
    bool all = false;
    int count = 1;

    Sample() {
        app.footer(
            "Exit status:\n  0 done; 2 usage\n\n  One line.\n\nExamples:\n  sample\n    more\n");
        CLI::Option* option =
            app.add_option("-c,--config", config, ".dot's file")->type_name("RUN.yaml");
        app.add_option("--resume", resume, "Where to\nstart; later: more")
            ->type_name("auto|never|DIR")
            ->needs(option)
            ->capture_default_str();
        CLI::App* look = app.add_subcommand("look", "Look at a file: it's [one]");
        look->add_option("file", file, "What to show")->required()->type_name("FILE");
        look->add_option("--set", settings, "Change a key")
            ->type_name("KEY=VALUE")
            ->allow_extra_args(false);
        look->add_flag("--all", all, "Everything");
        look->add_option("--count", count, "How often")->type_name("N")->check(CLI::Range(1, 9));
    }

    ProgramHelp help() const {
        return {.command = command_help(app),
                .summary = "train things",
                .version = "sample 1.0",
                .date = "2026-01-02",
                .sections = {{"See also", "other(1)"}},
                .words = {{"--set", {"model.size=", "name="}}}};
    }
};

const OptionHelp& find(const CommandHelp& command, std::string_view name) {
    for (const OptionHelp& option : command.options)
        for (const std::string& own : option.names)
            if (own == name) return option;
    FAIL("no option " << name);
    return command.options.front();
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("a command line as data", "[help]") {
    const Sample sample;
    const CommandHelp help = command_help(sample.app);
    CHECK(help.name == "sample");
    REQUIRE(help.commands.size() == 1);
    CHECK(find(help, "-c").names == std::vector<std::string>{"-c", "--config"});
    const OptionHelp& resume = find(help, "--resume");
    CHECK(resume.value == "auto|never|DIR");
    CHECK(resume.description == "Where to start; later: more");
    CHECK(resume.default_value == "auto");
    CHECK(resume.needs == std::vector<std::string>{"--config"});
    CHECK_FALSE(resume.repeats);
    const CommandHelp& look = help.commands.front();
    CHECK(find(look, "--set").repeats);
    CHECK(find(look, "--all").value.empty());
    CHECK(find(look, "--count").value == "N");
    REQUIRE(positional_of(look) != nullptr);
    CHECK(positional_of(look)->required);
    CHECK(positional_of(help) == nullptr);
    REQUIRE(help.sections.size() == 2);
    CHECK(help.sections[0].title == "Exit status");
    CHECK(help.sections[0].body == "0 done; 2 usage\n\nOne line.");
    CHECK(help.sections[1].body == "sample\n  more");
}

TEST_CASE("an option that is the first word, too, is listed as both", "[help]") {
    CLI::App app("Trains things.", "sample");
    std::string run;
    app.add_option("run,--run", run, "Which")->required()->type_name("DIR");
    const CommandHelp help = command_help(app);
    CHECK_FALSE(find(help, "--run").required);
    const OptionHelp* first_word = positional_of(help);
    REQUIRE(first_word != nullptr);
    CHECK(first_word->value == "DIR");
}

TEST_CASE("what completes a value", "[help]") {
    const Sample sample;
    const ProgramHelp program = sample.help();
    const ValueChoices resume = value_choices(find(program.command, "--resume"), program);
    CHECK(resume.words == std::vector<std::string>{"auto", "never"});
    CHECK(resume.files);
    const CommandHelp& look = program.command.commands.front();
    const ValueChoices setting = value_choices(find(look, "--set"), program);
    CHECK(setting.words.size() == 2);
    CHECK_FALSE(setting.files);
    CHECK_FALSE(value_choices(find(look, "--count"), program).any());
    OptionHelp prefix;
    prefix.names = {"--output-prefix"};
    prefix.value = "P";
    CHECK(value_choices(prefix, program).files);
    OptionHelp command;
    command.value = "COMMAND";
    CHECK(value_choices(command, program).words == std::vector<std::string>{"look"});
    CHECK_FALSE(value_choices(command, program).files);
}

TEST_CASE("a man page", "[help]") {
    const Sample sample;
    const std::string page = to_man_page(sample.help());
    CHECK(has(page, ".TH SAMPLE 1 \"2026-01-02\" \"sample 1.0\""));
    CHECK(has(page, "sample \\- train things\n"));
    CHECK(has(page, ".TP\n\\fB\\-c\\fR, \\fB\\-\\-config\\fR \\fIRUN.yaml\\fR\n\\&.dot's file.\n"));
    CHECK(has(page, "Default: auto. Needs \\fB\\-\\-config\\fR."));
    CHECK(has(page, ".nf\nsample \\-\\-config RUN.yaml\n.fi\n"));
    CHECK(has(page,
              ".SS sample look\n\\fBsample look\\fR [\\fB\\-\\-set\\fR \\fIKEY=VALUE\\fR ...]"));
    CHECK(has(page, "\\fIFILE\\fR\n"));
    CHECK(has(page,
              ".SH EXIT STATUS\n.TP\n\\fB0\\fR\ndone\n.TP\n\\fB2\\fR\nusage\n.PP\nOne line.\n"));
    CHECK(has(page, ".SH EXAMPLES\n.RS 2\n.nf\nsample\n  more\n.fi\n.RE\n.SH SEE ALSO\n"));
}

TEST_CASE("completions", "[help]") {
    const Sample sample;
    const std::string bash = to_bash_completion(sample.help());
    CHECK(has(bash, ":--resume) words 'auto never'; paths; return ;;\n"));
    CHECK(has(bash, "look:--set) words 'model.size= name='; return ;;\n"));
    CHECK(has(bash, "look:--count) return ;;\n"));
    CHECK(has(bash, "look:*) paths; return ;;\n"));
    const std::string zsh = to_zsh_completion(sample.help());
    CHECK(has(zsh, "'--resume[Where to start]:auto|never|DIR: _sample_words files auto never'"));
    CHECK(has(zsh, "'*--set[Change a key]:KEY=VALUE: _sample_words alone model.size= name='"));
    CHECK(has(zsh, R"('look:Look at a file: it'\''s [one]')"));
    const std::string fish = to_fish_completion(sample.help());
    CHECK(has(fish, "-s c -l config -r -F -d '.dot'\\''s file'"));
    CHECK(has(fish, "-n '__fish_seen_subcommand_from look' -l all -d 'Everything'"));
}

}  // namespace gptrain::test
