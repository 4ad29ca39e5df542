// Writes the tables of docs/run-spec.md from the program: every key, its default, and what is
// allowed. The page itself has only the meaning of a key.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "minimal_spec.h"
#include "spec/spec_json.h"
#include "spec/spec_keys.h"

namespace gptrain::test {
namespace {

using Words = std::vector<std::string>;

std::string as_code(std::string_view word) {
    return text("`", word, "`");
}

// ---- the program --------------------------------------------------------------------------------

struct ProgramKey {
    std::string default_value;  ///< as code; "required" if there is none
    std::string allowed;        ///< the ways to write a value
    bool zero = false;          ///< an integer that may be 0
};

/// The page omits bounds that no run reaches, but for that of seeds.
bool is_reached(double high) {
    constexpr int unreached = 1 << 14;
    return high < unreached || high == seed_value.high;
}

std::string words_of_rule(const IntRange& range) {
    const auto high = static_cast<double>(range.high);
    return is_reached(high) ? text(range.low, " to ", range.high) : text("at least ", range.low);
}
std::string words_of_rule(const RealRange& range) {
    const bool bounded = is_reached(range.high);
    if (range.ends == RealRange::Ends::high_only) {
        return text("above ", range.low, bounded ? text(" to ", range.high) : "");
    }
    const bool open = range.ends == RealRange::Ends::low_only;
    return bounded ? text(range.low, open ? " to below " : " to ", range.high)
                   : text("at least ", range.low);
}
std::string words_of_rule(const Label& rule) {
    return rule.description();
}
std::string words_of_rule(const Split&) {
    return "one to three numbers";
}
template <class Item>
std::string words_of_rule(const ListOf<Item>& rule) {
    if constexpr (std::is_same_v<Item, Any>) {
        return "a list";
    } else {
        return text("a list, each ", words_of_rule(rule.item));
    }
}

template <class T>
concept WordList = Enumeration<typename T::value_type>;

/// The choices that the rule allows for a value of the type, in addition to the word that leaves it
/// open.
template <class T, class Rule>
Words choices_of(const T& value, const Rule& rule) {
    Words choices;
    if constexpr (Enumeration<T>) {
        for (const auto& [candidate, word] : words_of(value))
            if (rule.accepts(candidate)) choices.push_back(as_code(word));
    } else if constexpr (std::is_same_v<Rule, OneOf<std::string>>) {
        for (const std::string& word : rule.allowed)
            choices.push_back(as_code(word));
    } else if constexpr (std::is_same_v<T, bool>) {
        choices = {as_code("true"), as_code("false")};
    } else if constexpr (std::is_same_v<T, TimeLimit>) {
        choices = {as_code("auto"), words_of_rule(rule)};
    } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
        choices = {"a path"};
    } else if constexpr (std::is_same_v<T, ExpertLayers>) {
        choices = {as_code("all"), "the keys below", "a list"};
    } else if constexpr (std::is_same_v<T, RopeThetas>) {
        choices = {words_of_rule(positive), "the keys below"};
    } else if constexpr (std::is_same_v<T, MlmSpec>) {
        choices = {as_code("mlm"), "the keys below"};
    } else if constexpr (Section<T>) {
        choices = {"the keys below"};
    } else if constexpr (WordList<T>) {
        Words words;
        for (const auto& [unused, word] : words_of(typename T::value_type{}))
            words.push_back(as_code(word));
        choices = {text("a list, each ", choice_of({words.begin(), words.end()}))};
    } else {
        choices = {words_of_rule(rule)};
    }
    return choices;
}

template <class T>
concept SectionList = Section<typename T::value_type> && requires(T& list) {
    list.resize(1);
};

/// A visitor that notes every key except plain sections. N replaces the number of a list's item.
struct ProgramKeys {
    std::string prefix;
    std::map<std::string, ProgramKey> keys;

    template <class T, class Rule = Any>
    void required(std::string_view key, T& field, const Rule& rule = {}) {
        note(key, field, rule, "", true);
    }
    template <class T, class Rule = Any>
    void value(std::string_view key, T& field, const Rule& rule = {}) {
        if constexpr (Section<T> && !std::is_same_v<T, ExpertLayers> &&
                      !std::is_same_v<T, RopeThetas>) {
            go_into(text(key, "."), field);
        } else {
            note(key, field, rule, "", false);
        }
    }
    template <class T, class Rule = Any>
    void open(std::string_view key, std::optional<T>&, std::string_view word,
              const Rule& rule = {}) {
        T field{};
        note(key, field, rule, word, false);
    }
    template <class None, class Kind>
    void open(std::string_view key, std::variant<None, Kind>&, std::string_view word) {
        Kind field{};
        note(key, field, Any{}, word, false);
    }

private:
    template <class T>
    void go_into(const std::string& path, T& section) {
        const std::string before = prefix;
        prefix += path;
        visit_keys(*this, section);
        prefix = before;
    }

    template <class T, class Rule>
    void note(std::string_view key, T& field, const Rule& rule, std::string_view word,
              bool required) {
        ProgramKey& noted = keys[text(prefix, key)];
        if (required) noted.default_value = "required";
        if constexpr (std::is_same_v<Rule, IntRange>) noted.zero = rule.accepts(0);
        Words choices = choices_of(field, rule);
        if (!word.empty()) choices.insert(choices.begin(), as_code(word));
        noted.allowed = choice_of({choices.begin(), choices.end()});
        if constexpr (SectionList<T>) {
            typename T::value_type item;
            go_into(text(key, ".N."), item);
        } else if constexpr (Section<T>) {
            go_into(text(key, "."), field);
        }
    }
};

/// Adds the values of an object, by the path of their key. A section adds only those inside it.
void add_values(std::map<std::string, std::string>& all, const std::string& path,
                const Json& value) {
    if (value.is_object()) {
        for (const auto& [key, inner] : value.items())
            add_values(all, path.empty() ? key : text(path, ".", key), inner);
        return;
    }
    all[path] = as_code(yaml_line(value));
    if (value.is_array() && !value.empty()) add_values(all, text(path, ".N"), value[0]);
}

/// The defaults of all keys: those that exist only with a setting, then those without any.
std::map<std::string, std::string> default_values() {
    std::map<std::string, std::string> defaults;
    const RunSpec open = minimal(
        {"data.validation=[{prefix: /data/v}]", "model.rope_scaling={kind: linear, factor: 2}",
         "model.experts={count: 4, per_token: 2, ffn_hidden_size: 8, shared: {ffn_hidden_size: 8}, "
         "router: {groups: {count: 2, keep: 1}}}",
         "faults.loss_spike={factor: 2, window: 5, action: stop}",
         "eval_tasks={tasks: [piqa], interval: 1}", "objective={kind: mlm}", "adapter={kind: lora}",
         "fault_injection={faults: [{kind: kill, step: 1}]}"});
    const ExpertLayers all;
    add_values(defaults, "model.experts.layers",
               {{"first_dense", all.first_dense}, {"every", all.every}});
    add_values(defaults, "model.rope_theta", {{"full", RopeThetas().full}, {"window", "none"}});
    add_values(defaults, "", to_json(open));
    RunSpec no_groups = open;
    no_groups.model.experts->router.groups.reset();
    no_groups.model.experts->shared.reset();
    add_values(defaults, "", to_json(no_groups));
    add_values(defaults, "", to_json(minimal()));
    return defaults;
}

const std::map<std::string, ProgramKey>& program_keys() {
    static const auto keys = [] {
        ProgramKeys visitor;
        RunSpec spec;
        visit_keys(visitor, spec);
        const auto defaults = default_values();
        for (auto& [path, key] : visitor.keys)
            if (key.default_value.empty()) key.default_value = defaults.at(path);
        return visitor.keys;
    }();
    return keys;
}

// ---- the page -----------------------------------------------------------------------------------

/// The words in backticks.
Words code_in(const std::string& cell) {
    Words words;
    for (std::size_t start = cell.find('`'); start != cell.npos; start = cell.find('`', start)) {
        const std::size_t end = cell.find('`', start + 1);
        REQUIRE(end != cell.npos);
        words.push_back(cell.substr(start + 1, end - start - 1));
        start = end + 1;
    }
    return words;
}

/// The cells of a line `| a | b |`, without surrounding blanks.
Words cells_of(const std::string& line) {
    Words cells;
    for (std::size_t start = 1; start < line.size();) {
        const std::size_t end = line.find('|', start);
        REQUIRE(end != line.npos);
        const std::string cell = line.substr(start, end - start);
        const std::size_t first = cell.find_first_not_of(' ');
        cells.push_back(
            first == cell.npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
        start = end + 1;
    }
    return cells;
}

std::string run_spec_page() {
    std::ifstream file(GPTRAIN_RUN_SPEC_PAGE);
    std::stringstream words;
    words << file.rdbuf();
    REQUIRE(words.str().size() > 1000);
    return words.str();
}

/// The page as the program has it, and how the keys of its tables differ from the program's.
struct WrittenPage {
    std::string words;
    std::map<std::string, std::string> meanings;  ///< by path
    Words faults;
};

/// A row with the default and the values of its keys. Keys that share a row have the same ones.
std::string written_row(const std::string& line, const std::string& section, WrittenPage& page) {
    const Words cells = cells_of(line);
    CAPTURE(line);
    REQUIRE(cells.size() == 4);
    std::string row = line;
    for (const std::string& name : code_in(cells[0])) {
        const std::string path = section + name;
        if (!page.meanings.insert({path, cells[3]}).second) page.faults.push_back(path + ": twice");
        const auto key = program_keys().find(path);
        if (key == program_keys().end()) {
            page.faults.push_back(path + ": not a key of the program");
        } else {
            row = text("| ", cells[0], " | ", key->second.default_value, " | ", key->second.allowed,
                       " | ", cells[3], " |");
        }
    }
    return row;
}

WrittenPage written(const std::string& page) {
    WrittenPage out;
    std::istringstream lines(page);
    std::string line;
    std::string section;
    while (std::getline(lines, line)) {
        if (line.starts_with("## `")) section = code_in(line).front() + ".";
        out.words += (line.starts_with("| `") ? written_row(line, section, out) : line) + "\n";
    }
    // For these integers 0 has no special meaning.
    const Words plain_zeros = {"seed", "objective.mask_id", "data.eod_id", "fault_injection.seed",
                               "fault_injection.faults.N.rank"};
    for (const auto& [path, key] : program_keys()) {
        const auto meaning = out.meanings.find(path);
        if (meaning == out.meanings.end()) {
            out.faults.push_back(path + ": not in run-spec.md");
        } else if (key.zero && meaning->second.find('0') == meaning->second.npos &&
                   std::find(plain_zeros.begin(), plain_zeros.end(), path) == plain_zeros.end()) {
            out.faults.push_back(path + ": does not say what 0 means");
        }
    }
    return out;
}

/// The page with one place changed.
std::string changed(const std::string& from, const std::string& to) {
    std::string words = run_spec_page();
    const std::size_t place = words.find(from);
    CAPTURE(from);
    REQUIRE(place != words.npos);
    return words.replace(place, from.size(), to);
}

}  // namespace

// scripts/update_docs.sh runs this case, which writes the page.
TEST_CASE("run-spec.md is written", "[.write]") {
    const std::string words = written(run_spec_page()).words;
    std::ofstream file(GPTRAIN_RUN_SPEC_PAGE);
    file << words;
    file.close();
    REQUIRE(file);
}

TEST_CASE("run-spec.md has every key of the spec, as scripts/update_docs.sh writes it") {
    CHECK(program_keys().size() > 80);
    const std::string page = run_spec_page();
    const WrittenPage program = written(page);
    CHECK(program.faults == Words{});
    CHECK(program.words == page);
}

TEST_CASE("a page that differs from the program is written again") {
    const auto is_restored = [](const std::string& from, const std::string& to) {
        return written(changed(from, to)).words == run_spec_page();
    };
    CHECK(is_restored("| `keep_last` | `3` |", "| `keep_last` | `4` |"));
    CHECK(is_restored("| `keep_last` | `3` |", "| `keep_last` | required |"));
    CHECK(is_restored("| at least 2 |", "| at least 1 |"));
    CHECK(is_restored("| `steps` | required |", "| `steps` | `100` |"));
    CHECK(is_restored("`gpipe`, `1f1b`, ", "`gpipe`, "));
    CHECK(is_restored("`auto`, `fp32`", "`fp32`"));
    CHECK(written(changed("| `keep_last`", "| `keep_past`")).faults ==
          Words{"checkpoint.keep_past: not a key of the program",
                "checkpoint.keep_last: not in run-spec.md"});
    CHECK(written(changed("after the last step; 0: none", "after the last step")).faults ==
          Words{"training.eval_interval: does not say what 0 means"});
}

TEST_CASE("run-spec.md gives an example of each key of the mesh") {
    std::size_t examples = 0;
    for (const auto& [path, meaning] : written(run_spec_page()).meanings) {
        if (!path.starts_with("parallel.")) continue;
        CAPTURE(path, meaning);
        const std::string name = path.substr(path.find('.') + 1) + ": ";
        for (const std::string& code : code_in(meaning)) {
            if (!code.starts_with(name)) continue;
            const std::string setting = text(path, "=", code.substr(name.size()));
            CHECK(minimal({setting}) != minimal());
            ++examples;
        }
    }
    CHECK(examples == 15);
}

}  // namespace gptrain::test
