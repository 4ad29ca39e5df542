// Hostile files: each gives one Error (usage) that names the file and the place; never a crash, a
// hang or an accepted spec.
#include <filesystem>
#include <fstream>
#include <map>
#include <sys/stat.h>

#include "base/file.h"
#include "minimal_spec.h"
#include "spec/section_reader.h"
#include "spec/spec_keys.h"

namespace gptrain::test {
namespace {

using std::filesystem::path;

const path corpus = path(GPTRAIN_TEST_DATA) / "../corpus/spec";

/// Where the fault of each file is, and a part of what must be said of it.
struct Fault {
    std::string place;
    std::string words;
};

const std::map<std::string, Fault> faults = {
    {"adapter_alpha", {"6:30", "adapter.alpha: found .nan"}},
    {"adapter_kind", {"6:10", "adapter.kind: missing key"}},
    {"adapter_encoder", {"6:48", "adapter.encoder_hidden_size: found 0"}},
    {"adapter_init", {"6:31", "adapter.init: found text"}},
    {"adapter_rank", {"6:29", "adapter.rank: found 0"}},
    {"adapter_scalar", {"6:10", "adapter: found lora"}},
    {"adapter_target", {"6:41", "adapter.targets.1: found attn.qkv"}},
    {"adapter_targets_word", {"6:32", "adapter.targets: found attn.q"}},
    {"adapter_virtual_tokens", {"6:41", "adapter.virtual_tokens: found -1"}},
    {"alias_bomb", {"1:4", "anchors are not allowed"}},
    {"anchor", {"6:7", "anchors are not allowed"}},
    {"bad_escape", {"6:15", "not valid YAML: unknown escape character: q"}},
    {"bad_indent", {"8:2", "not valid YAML: end of map not found"}},
    {"beyond_unicode", {"6:3", "not UTF-8 text"}},
    {"bool_capital", {"6:16", "deterministic: found True"}},
    {"bool_number", {"6:16", "deterministic: found 1"}},
    {"bool_on", {"6:16", "deterministic: found on"}},
    {"bool_quoted", {"6:16", "deterministic: found \"true\" in quotes"}},
    {"bool_yes", {"6:16", "deterministic: found yes"}},
    {"byte_four", {"7:1", "control character 4 is not allowed"}},
    {"comment_only", {"1:1", "name: missing key"}},
    {"complex_key", {"6:3", "a key must be a word"}},
    {"cut_utf8", {"6:3", "not UTF-8 text"}},
    {"cyclic_alias", {"6:10", "anchors are not allowed"}},
    {"deep_block", {"1:33", "nested more than 16 deep"}},
    {"deep_flow", {"6:15", "nested more than 16 deep"}},
    {"deep_map", {"1:61", "nested more than 16 deep"}},
    {"directive", {"1:1", "directives are not allowed"}},
    {"duplicate_inside", {"6:35", "lr: duplicate key"}},
    {"duplicate_key", {"7:1", "seed: duplicate key"}},
    {"duplicate_section", {"7:1", "optimizer: duplicate key"}},
    {"empty", {"1:1", "name: missing key"}},
    {"eval_tasks_data_list", {"6:53", "eval_tasks.data: found a list of 1"}},
    {"eval_tasks_few_shot_minus", {"6:57", "eval_tasks.few_shot: found -1"}},
    {"eval_tasks_interval_huge", {"6:44", "eval_tasks.interval: found 9223372036854775808"}},
    {"eval_tasks_interval_zero", {"6:44", "eval_tasks.interval: found 0"}},
    {"eval_tasks_key", {"6:47", "eval_tasks.few_shots: unknown key"}},
    {"eval_tasks_limit_zero", {"6:54", "eval_tasks.limit: found 0"}},
    {"eval_tasks_list", {"6:13", "eval_tasks: found a list of 1"}},
    {"eval_tasks_no_interval", {"6:13", "eval_tasks.interval: missing key"}},
    {"eval_tasks_no_tasks", {"6:13", "eval_tasks.tasks: missing key"}},
    {"eval_tasks_task_empty", {"6:22", "eval_tasks.tasks.0: found \"\" in quotes"}},
    {"eval_tasks_task_nul", {"6:22", "eval_tasks.tasks.0: found \"a b\" in quotes"}},
    {"eval_tasks_task_tilde", {"6:22", "eval_tasks.tasks.0: found ~/t.yaml; `~` is not expanded"}},
    {"eval_tasks_tasks_empty", {"6:21", "eval_tasks.tasks: found a list of 0"}},
    {"eval_tasks_tasks_many", {"6:21", "eval_tasks.tasks: found a list of 101"}},
    {"eval_tasks_tasks_nested", {"6:22", "eval_tasks.tasks.0: found a list of 1"}},
    {"eval_tasks_tasks_word", {"6:21", "eval_tasks.tasks: found hellaswag"}},
    {"eval_tasks_twice", {"6:47", "tasks: duplicate key"}},
    {"eval_tasks_word", {"6:13", "eval_tasks: found hellaswag"}},
    {"experts_bias_nan", {"4:84", "model.experts.balance.bias_rate: found .nan"}},
    {"experts_count_huge", {"4:26", "model.experts.count: found 9999"}},
    {"experts_groups_list", {"4:80", "model.experts.router.groups: found a list of 2"}},
    {"experts_layers_empty", {"4:71", "model.experts.layers: found a list of 0"}},
    {"experts_layers_key", {"4:72", "model.experts.layers.dense: unknown key"}},
    {"experts_layers_nested", {"4:72", "model.experts.layers.0: found a list of 1"}},
    {"experts_no_width", {"4:18", "model.experts.ffn_hidden_size: missing key"}},
    {"experts_word", {"4:18", "model.experts: found mixtral"}},
    {"float_comma", {"6:17", "optimizer.lr: found \"0,1\" in quotes"}},
    {"float_hex", {"6:17", "optimizer.lr: found 0x1p-3"}},
    {"float_inf", {"6:17", "optimizer.lr: found .inf"}},
    {"float_inf_word", {"6:17", "optimizer.lr: found inf"}},
    {"float_nan", {"6:17", "optimizer.lr: found .nan"}},
    {"float_nan_word", {"6:17", "optimizer.lr: found nan"}},
    {"float_overflow", {"6:17", "optimizer.lr: found 1e999"}},
    {"float_underflow", {"6:18", "optimizer.eps: found 1e-999"}},
    {"float_word", {"6:17", "optimizer.lr: found fast"}},
    {"frozen_scalar", {"6:11", "training.frozen: found wte.weight"}},
    {"frozen_star", {"6:13", "alias not found after *"}},
    {"int_comma", {"6:7", "seed: found 1,000"}},
    {"int_empty", {"6:1", "seed: found nothing"}},
    {"int_exponent", {"6:7", "seed: found 1e3"}},
    {"int_float", {"6:7", "seed: found 1.0"}},
    {"int_fullwidth", {"6:7", "seed: found １２"}},
    {"int_hex", {"6:7", "seed: found 0x10"}},
    {"int_huge", {"6:7", "seed: found 9999999999999999999999999999999999999999..."}},
    {"int_list", {"6:7", "seed: found a list"}},
    {"int_minus", {"6:7", "seed: found -1"}},
    {"int_null", {"6:1", "seed: found nothing"}},
    {"int_octal", {"6:7", "seed: found 010"}},
    {"int_octal_o", {"6:7", "seed: found 0o10"}},
    {"int_plus", {"6:7", "seed: found +1"}},
    {"int_quoted", {"6:7", "seed: found \"1\" in quotes"}},
    {"int_sixty_four_bits", {"6:7", "seed: found 18446744073709551616"}},
    {"int_two_lines", {"6:7", "seed: found 1 2"}},
    {"int_underscore", {"6:7", "seed: found 1_000"}},
    {"invalid_utf8", {"6:6", "not UTF-8 text"}},
    {"key_json", {"1:15", "name: duplicate key"}},
    {"list_root", {"1:1", "found a list"}},
    {"long_key", {"6:1", "a key must be a word"}},
    {"merge_key", {"7:3", "logging.<<: unknown key"}},
    {"name_block", {"1:7", "name: found \"a b \" in quotes"}},
    {"name_empty", {"1:7", "name: found \"\" in quotes"}},
    {"name_with_newline", {"1:7", "name: found \"a b\" in quotes"}},
    {"newline_in_key", {"6:1", "a key must be a word"}},
    {"nul", {"6:8", "control character 0 is not allowed"}},
    {"nul_escape", {"6:12", "recompute: found \"none \" in quotes"}},
    {"null_key", {"6:1", "a key must be a word"}},
    {"objective_key", {"6:24", "objective.mask_ratio: unknown key"}},
    {"objective_kind", {"6:12", "objective.kind: missing key"}},
    {"objective_kind_causal", {"6:19", "objective.kind: found causal"}},
    {"objective_list", {"6:12", "objective: found"}},
    {"objective_mask_id_huge", {"6:33", "objective.mask_id: found 9999"}},
    {"objective_null", {"6:1", "objective: found"}},
    {"objective_rate_nan", {"6:35", "objective.mask_rate: found .nan"}},
    {"objective_word", {"6:12", "objective: found bert"}},
    {"overlong_utf8", {"6:3", "not UTF-8 text"}},
    {"prefix_nul", {"4:25", "data.train.0.prefix: found \"data/ x\" in quotes"}},
    {"random_bytes", {"1:1", "control character 0 is not allowed"}},
    {"section_is_list", {"5:11", "training: found a list"}},
    {"section_is_word", {"5:11", "training: found 10"}},
    {"section_missing", {"1:1", "training.steps: missing key"}},
    {"source_is_word", {"4:16", "data.train.0: found data/x"}},
    {"surrogate_utf8", {"6:3", "not UTF-8 text"}},
    {"tab_indent", {"7:2", "a tab indents this line"}},
    {"tag_int", {"6:7", "tags are not allowed"}},
    {"tag_object", {"6:10", "tags are not allowed"}},
    {"text_after_end", {"7:1", "a second document starts here"}},
    {"train_is_word", {"4:15", "data.train: found data/x"}},
    {"two_colons", {"6:8", "not valid YAML: illegal map value"}},
    {"two_documents", {"6:1", "a second document starts here"}},
    {"unclosed_double_quote", {"6:7", "this \" is not closed"}},
    {"unclosed_last_quote", {"2:7", "this ' is not closed"}},
    {"unclosed_list", {"6:20", "not valid YAML: this [ is not closed"}},
    {"unclosed_map", {"6:10", "not valid YAML: this { is not closed"}},
    {"unclosed_path", {"4:25", "this \" is not closed"}},
    {"unclosed_quote", {"6:7", "this ' is not closed"}},
    {"undefined_alias", {"6:7", "not valid YAML: the referenced anchor is not defined"}},
    {"utf16", {"1:1", "not UTF-8 text"}},
    {"word_root", {"1:1", "found just some words"}},
};

std::string fault_of(const path& file) {
    return usage_fault([&] { load_run_spec(file); });
}

}  // namespace

TEST_CASE("each hostile file is refused at the place of its fault") {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
        const std::string name = entry.path().stem();
        const std::string message = fault_of(entry.path());
        CAPTURE(name, message);
        REQUIRE(faults.count(name) == 1);
        CHECK(message.starts_with(text(entry.path().string(), ":", faults.at(name).place, ": ")));
        CHECK(message.find(faults.at(name).words) != std::string::npos);
        CHECK(message.size() < entry.path().string().size() + 300);
        ++count;
    }
    CHECK(count == faults.size());
}

TEST_CASE("the dictionary of the fuzzer has every key") {
    const std::string words = read_file(path(GPTRAIN_TEST_DATA) / "../fuzz/spec.dict", 1 << 20);
    for (const std::string& key : key_paths<RunSpec>()) {
        CAPTURE(key);
        CHECK(words.find(text("\"", key.substr(key.rfind('.') + 1), ": \"\n")) != words.npos);
    }
}

TEST_CASE("what is not a small regular file is refused by its name") {
    const path folder = std::filesystem::temp_directory_path() / text("gptrain_spec_", ::getpid());
    std::filesystem::create_directories(folder);
    SECTION("missing") {
        CHECK(fault_of(folder / "none.yaml").starts_with((folder / "none.yaml").string()));
    }
    SECTION("a folder") {
        CHECK(fault_of(folder).ends_with(": not a regular file"));
    }
    SECTION("a pipe, which would block") {
        REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
        CHECK(fault_of(folder / "pipe").ends_with(": not a regular file"));
    }
    SECTION("10 MiB") {
        std::ofstream(folder / "big.yaml") << std::string(10 << 20, 'a');
        CHECK(fault_of(folder / "big.yaml").find("exceeds the limit of 1.00 MiB") !=
              std::string::npos);
    }
    std::filesystem::remove_all(folder);
}

TEST_CASE("a megabyte of anything is answered soon") {
    for (const std::string unit :
         {"[",  "{",    "- ",   "? ",  "&a ",  "!a ",    "a: ",   "a:\n", "'",   "\"",
          "a ", "#x\n", "{a: ", "*a ", "| ",   "%",      "\t",    "a,",   "[a,", "\n",
          ": ", "!!",   "\\",   "''",  "\"\\", "x: '\n", "[a]\n", "a: [", "]"}) {
        CAPTURE(unit);
        std::string yaml;
        while (yaml.size() + unit.size() <= (1 << 20))
            yaml += unit;
        CHECK(usage_fault([&] { parse_run_spec(yaml, "run.yaml"); }).starts_with("run.yaml:"));
    }
}

}  // namespace gptrain::test
