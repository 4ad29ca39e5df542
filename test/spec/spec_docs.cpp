// Compares the tables of docs/run-spec.md with the program: every key, its default, and what is
// allowed.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "minimal_spec.h"
#include "spec/spec_keys.h"

namespace gptrain::test {
namespace {

using Words = std::vector<std::string>;

std::string as_code(std::string_view word) {
    return text("`", word, "`");
}

// ---- the program --------------------------------------------------------------------------------

struct ProgramKey {
    bool required = false;
    bool zero = false;  ///< an integer that may be 0
    Words allowed;      ///< the accepted ways to write it
};

/// Bounds that no run reaches may be omitted.
constexpr int unreached = 1 << 14;

std::string words_of_rule(const IntRange& range, bool bounds) {
    return bounds || range.high < unreached ? text(range.low, " to ", range.high)
                                            : text("at least ", range.low);
}
std::string words_of_rule(const RealRange& range, bool bounds) {
    const bool bounded = bounds || range.high < unreached;
    if (range.ends == RealRange::Ends::high_only) {
        return text("above ", range.low, bounded ? text(" to ", range.high) : "");
    }
    const bool open = range.ends == RealRange::Ends::low_only;
    return bounded ? text(range.low, open ? " to below " : " to ", range.high)
                   : text("at least ", range.low);
}
std::string words_of_rule(const Label& rule, bool) {
    return rule.description();
}
std::string words_of_rule(const Split&, bool) {
    return "one to three numbers";
}
template <class Item>
std::string words_of_rule(const ListOf<Item>& rule, bool bounds) {
    if constexpr (std::is_same_v<Item, Any>) {
        return "a list";
    } else {
        return text("a list, each ", words_of_rule(rule.item, bounds));
    }
}

template <class T>
concept WordList = Enumeration<typename T::value_type>;

/// The choices that the rule allows for a value of the type, in addition to the word that leaves it
/// open.
template <class T, class Rule>
Words choices_of(const T& value, const Rule& rule, bool bounds) {
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
        choices = {as_code("auto"), words_of_rule(rule, bounds)};
    } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
        choices = {"a path"};
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
        choices = {words_of_rule(rule, bounds)};
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
        if constexpr (Section<T>) {
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
        noted.required = required;
        if constexpr (std::is_same_v<Rule, IntRange>) noted.zero = rule.accepts(0);
        for (const bool bounds : {false, true}) {
            const Words choices = choices_of(field, rule, bounds);
            std::vector<std::string_view> all(choices.begin(), choices.end());
            const std::string open_word = as_code(word);
            if (!word.empty()) all.insert(all.begin(), open_word);
            noted.allowed.push_back(choice_of(all));
        }
        if constexpr (SectionList<T>) {
            typename T::value_type item;
            go_into(text(key, ".N."), item);
        } else if constexpr (Section<T>) {
            go_into(text(key, "."), field);
        }
    }
};

std::map<std::string, ProgramKey> program_keys() {
    ProgramKeys visitor;
    RunSpec spec;
    visit_keys(visitor, spec);
    return visitor.keys;
}

// ---- the page -----------------------------------------------------------------------------------

struct Row {
    std::string default_value;
    std::string allowed;
    std::string meaning;
};

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

/// The rows of all tables, by the path of the key. A key that appears twice is a failure.
std::map<std::string, Row> rows_of(const std::string& page) {
    std::map<std::string, Row> rows;
    std::istringstream lines(page);
    std::string line;
    std::string section;
    while (std::getline(lines, line)) {
        if (line.starts_with("## `")) section = code_in(line).front() + ".";
        if (!line.starts_with("| `")) continue;
        const Words cells = cells_of(line);
        CAPTURE(line);
        REQUIRE(cells.size() == 4);
        for (const std::string& key : code_in(cells[0])) {
            const bool added = rows.insert({section + key, {cells[1], cells[2], cells[3]}}).second;
            CHECK(added);
        }
    }
    return rows;
}

std::string run_spec_page() {
    std::ifstream file(GPTRAIN_RUN_SPEC_PAGE);
    std::stringstream words;
    words << file.rdbuf();
    REQUIRE(words.str().size() > 1000);
    return words.str();
}

// ---- comparison
// ----------------------------------------------------------------------------------

/// The settings without which the key has no place: the list or the open section that contains it.
Words around(const std::string& key) {
    if (key.starts_with("data.validation.N")) return {"data.validation=[{prefix: /data/v}]"};
    if (key.starts_with("model.rope_scaling."))
        return {"model.rope_scaling={kind: linear, factor: 2}"};
    if (key.starts_with("faults.loss_spike."))
        return {"faults.loss_spike={factor: 2, window: 5, action: stop}"};
    if (key.starts_with("eval_tasks.")) return {"eval_tasks={tasks: [piqa], interval: 1}"};
    if (key.starts_with("objective.")) return {"objective={kind: mlm}"};
    if (key.starts_with("adapter.")) return {"adapter={kind: lora}"};
    if (key.starts_with("fault_injection."))
        return {"fault_injection={faults: [{kind: kill, step: 1}]}"};
    return {};
}

/// True if writing the value out changes nothing.
bool is_default(std::string key, const std::string& value) {
    Words settings = around(key);
    const RunSpec without = minimal(settings);
    if (const std::size_t item = key.find(".N."); item != key.npos) key.replace(item, 3, ".0.");
    settings.push_back(text(key, "=", value));
    try {
        return minimal(settings) == without;
    } catch (const Error&) {
        return false;
    }
}

/// For these integers 0 has no special meaning.
const Words plain_zeros = {"seed", "objective.mask_id", "data.eod_id", "fault_injection.seed",
                           "fault_injection.faults.N.rank"};

void compare(const std::string& key, const ProgramKey& program, const Row& row, Words& faults) {
    const auto fault = [&](std::string_view what) { faults.push_back(text(key, ": ", what)); };
    const Words value = code_in(row.default_value);
    if (program.required) {
        if (row.default_value != "required") fault("is required");
    } else if (value.size() != 1 || !is_default(key, value[0])) {
        fault("wrong default");
    }
    const Words& allowed = program.allowed;
    if (std::find(allowed.begin(), allowed.end(), row.allowed) == allowed.end())
        fault(text("allowed is ", allowed[0]));
    const bool plain = std::find(plain_zeros.begin(), plain_zeros.end(), key) != plain_zeros.end();
    if (program.zero && !plain && row.meaning.find('0') == std::string::npos)
        fault("does not say what 0 means");
}

Words disagreements(const std::string& page) {
    const std::map<std::string, Row> rows = rows_of(page);
    const std::map<std::string, ProgramKey> program = program_keys();
    Words faults;
    for (const auto& [key, row] : rows)
        if (program.count(key) == 0) faults.push_back(text(key, ": not a key of the program"));
    for (const auto& [key, known] : program) {
        if (const auto row = rows.find(key); row != rows.end()) {
            compare(key, known, row->second, faults);
        } else {
            faults.push_back(text(key, ": not in run-spec.md"));
        }
    }
    return faults;
}

/// The differences when one place of the page is changed.
Words after_change(const std::string& from, const std::string& to) {
    std::string words = run_spec_page();
    const std::size_t place = words.find(from);
    CAPTURE(from);
    REQUIRE(place != words.npos);
    return disagreements(words.replace(place, from.size(), to));
}

}  // namespace

TEST_CASE("run-spec.md names every key of the spec with its default and what is allowed") {
    CHECK(program_keys().size() > 80);
    CHECK(disagreements(run_spec_page()) == Words{});
}

TEST_CASE("run-spec.md and the program are seen to differ") {
    const std::string row = "| `keep_last` | `3` | at least 2 |";
    CHECK(after_change(row, "| `keep_past` | `3` | at least 2 |") ==
          Words{"checkpoint.keep_past: not a key of the program",
                "checkpoint.keep_last: not in run-spec.md"});
    CHECK(after_change(row, "| `keep_last` | `4` | at least 2 |") ==
          Words{"checkpoint.keep_last: wrong default"});
    CHECK(after_change(row, "| `keep_last` | required | at least 2 |") ==
          Words{"checkpoint.keep_last: wrong default"});
    CHECK(after_change(row, "| `keep_last` | `3` | at least 1 |") ==
          Words{"checkpoint.keep_last: allowed is at least 2"});
    CHECK(after_change("| `steps` | required |", "| `steps` | `100` |") ==
          Words{"training.steps: is required"});
    CHECK(after_change("`gpipe`, `1f1b`, ", "`gpipe`, ") ==
          Words{"parallel.schedule: allowed is `gpipe`, `1f1b`, `interleaved_1f1b` or "
                "`zero_bubble`"});
    CHECK(after_change("`auto`, `fp32`", "`fp32`") ==
          Words{"precision.compute: allowed is `auto`, `fp32`, `bf16`, `fp16` or `fp8`"});
    CHECK(after_change("after the last step; 0: none", "after the last step") ==
          Words{"training.eval_interval: does not say what 0 means"});
}

TEST_CASE("run-spec.md gives an example of each key of the mesh") {
    std::size_t examples = 0;
    for (const auto& [key, row] : rows_of(run_spec_page())) {
        if (!key.starts_with("parallel.")) continue;
        CAPTURE(key, row.meaning);
        const std::string name = key.substr(key.find('.') + 1) + ": ";
        for (const std::string& code : code_in(row.meaning)) {
            if (!code.starts_with(name)) continue;
            const std::string value = code.substr(name.size());
            CHECK_FALSE(is_default(key, value));
            CHECK_NOTHROW(minimal({text(key, "=", value)}));
            ++examples;
        }
    }
    CHECK(examples == 11);
}

}  // namespace gptrain::test
