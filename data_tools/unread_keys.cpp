#include "unread_keys.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "base/join.h"
#include "base/json.h"
#include "base/log.h"

namespace gptrain {
namespace {

constexpr std::size_t most_keys = 8;
constexpr std::size_t most_key_bytes = 40;

}  // namespace

void add_unread_keys(std::set<std::string> more, std::set<std::string>& all) {
    all.merge(more);
    while (all.size() > most_keys)
        all.erase(std::prev(all.end()));
}

void report_unread_keys(const std::set<std::string>& mine, const MpiSession& ranks) {
    std::string line;
    for (const std::string& key : mine)
        append(line, text(to_line(Json(std::string_view(key).substr(0, most_key_bytes))), "\n"));
    std::set<std::string> all;
    for (const std::string& theirs : ranks.exchange(line)) {
        std::set<std::string> keys;
        for (std::size_t at = 0; at < theirs.size(); at = theirs.find('\n', at) + 1)
            keys.insert(theirs.substr(at, theirs.find('\n', at) - at));
        add_unread_keys(std::move(keys), all);
    }
    if (all.empty() || ranks.rank() != 0) return;
    print("lines have keys that are not used: ", joined(all),
          all.size() == most_keys ? " (and perhaps others)" : "");
}

}  // namespace gptrain
