#include "tokenizer/charsmap_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace gptrain {
namespace {

constexpr std::size_t max_trie_bytes = std::size_t{4} << 20;
constexpr std::size_t max_text_bytes = 256;
constexpr int max_prefixes = 32;

/// A unit of darts-clone's array.
struct Unit {
    std::uint32_t bits;
    bool has_leaf() const { return (bits >> 8 & 1) == 1; }
    std::uint32_t value() const { return bits & 0x7FFFFFFFu; }
    std::uint32_t label() const { return bits & 0x800000FFu; }
    std::uint32_t offset() const { return (bits >> 10) << ((bits & 0x200u) >> 6); }
};

/// Visits every position that a lookup can reach, depth first.
class TrieWalk {
public:
    TrieWalk(std::string_view trie, std::string_view texts, std::string_view source)
        : units_(trie.size() / sizeof(Unit)),
          texts_(texts),
          source_(source),
          state_(units_.size(), unseen) {
        std::memcpy(units_.data(), trie.data(), units_.size() * sizeof(Unit));
    }

    void check() {
        enter(units_[0].offset());
        while (!path_.empty()) {
            Step& step = path_.back();
            if (step.next_label == 256) {
                leave();
            } else {
                follow(step.base, step.next_label++);
            }
        }
    }

private:
    static constexpr std::uint8_t unseen = 255;
    static constexpr std::uint8_t open = 254;

    struct Step {
        std::uint32_t base;
        std::uint32_t next_label;
        bool by_leaf;  // a key ends on the way to this position
        int prefixes;  // the most keys that end on one path beyond it
    };

    [[noreturn]] void refuse(std::string_view why) const {
        fail(ExitCode::bad_input, source_, ": the normaliser table is broken: ", why);
    }

    void enter(std::uint32_t base, bool by_leaf = false) {
        if ((base | 255u) >= units_.size()) refuse("an offset points outside the trie");
        state_[base] = open;
        path_.push_back({base, 0, by_leaf, 0});
    }

    void follow(std::uint32_t base, std::uint32_t label) {
        const std::uint32_t place = base ^ label;
        const Unit unit = units_[place];
        if (unit.label() != label) return;
        const std::uint32_t next = place ^ unit.offset();
        if ((next | 255u) >= units_.size()) refuse("an offset points outside the trie");
        if (unit.has_leaf()) check_value(units_[next].value());
        if (state_[next] == open) refuse("its trie has a loop");
        if (state_[next] == unseen) {
            enter(next, unit.has_leaf());
        } else {
            count(state_[next] + (unit.has_leaf() ? 1 : 0));
        }
    }

    void leave() {
        const Step done = path_.back();
        path_.pop_back();
        state_[done.base] = static_cast<std::uint8_t>(done.prefixes);
        if (!path_.empty()) count(done.prefixes + (done.by_leaf ? 1 : 0));
    }

    void count(int prefixes) {
        if (prefixes > max_prefixes) refuse("too many of its keys are prefixes of one another");
        path_.back().prefixes = std::max(path_.back().prefixes, prefixes);
    }

    void check_value(std::uint32_t value) const {
        const bool starts_text = value < texts_.size() && (value == 0 || texts_[value - 1] == '\0');
        if (!starts_text) refuse("a value of its trie is not the start of a text");
    }

    std::vector<Unit> units_;
    std::string_view texts_;
    std::string_view source_;
    std::vector<std::uint8_t> state_;  // unseen, open, or the number of prefixes beyond it
    std::vector<Step> path_;
};

void check_texts(std::string_view texts, std::string_view source) {
    const auto refuse = [source](std::string_view why) {
        fail(ExitCode::bad_input, source, ": the normaliser table is broken: ", why);
    };
    if (texts.empty() || texts.back() != '\0') refuse("its last text is unterminated");
    if (find_invalid_utf8(texts) != std::string_view::npos) refuse("its texts are not UTF-8");
    while (!texts.empty()) {
        const std::size_t end = texts.find('\0');
        if (end > max_text_bytes) refuse("a text is longer than 256 bytes");
        texts.remove_prefix(end + 1);
    }
}

}  // namespace

void check_charsmap(std::string_view table, std::string_view source) {
    if (table.empty()) return;
    std::uint32_t trie_bytes = 0;
    const bool sizes_agree = [&] {
        if (table.size() <= sizeof trie_bytes) return false;
        std::memcpy(&trie_bytes, table.data(), sizeof trie_bytes);
        return trie_bytes > 0 && trie_bytes % sizeof(Unit) == 0 && trie_bytes <= max_trie_bytes &&
               trie_bytes < table.size() - sizeof trie_bytes;
    }();
    if (!sizes_agree) {
        fail(ExitCode::bad_input, source, ": the normaliser table of ", table.size(),
             " bytes cannot hold a trie of ", trie_bytes, " bytes and its texts");
    }
    const std::string_view texts = table.substr(sizeof trie_bytes + trie_bytes);
    check_texts(texts, source);
    TrieWalk(table.substr(sizeof trie_bytes, trie_bytes), texts, source).check();
}

}  // namespace gptrain
