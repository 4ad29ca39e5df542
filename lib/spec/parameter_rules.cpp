#include "spec/parameter_rules.h"

#include <algorithm>

namespace gptrain {

Update ParameterRules::update(std::string_view name, int dims) const {
    if (!trains(name)) return Update::frozen;
    const bool matrix = dims >= 2 && name.starts_with("h.") && !name.ends_with(router_suffix);
    return muon && matrix ? Update::muon : Update::adamw;
}

bool is_adapter_parameter(std::string_view name) {
    return name.ends_with(lora_a_suffix) || name.ends_with(lora_b_suffix) ||
           name.starts_with(prompt_prefix);
}

bool ParameterRules::trains(std::string_view name) const {
    if (adapter) return is_adapter_parameter(name);
    return std::none_of(frozen.begin(), frozen.end(),
                        [&](const std::string& pattern) { return name_matches(pattern, name); });
}

bool name_matches(std::string_view pattern, std::string_view name) {
    std::size_t at = 0;  // in the pattern
    std::size_t star = pattern.npos;
    std::size_t taken = 0;  // where the text of the last star ends
    for (std::size_t i = 0; i < name.size();) {
        if (at < pattern.size() && pattern[at] == '*') {
            star = at++;
            taken = i;
        } else if (at < pattern.size() && pattern[at] == name[i]) {
            ++at;
            ++i;
        } else if (star != pattern.npos) {
            // The last star takes one more character.
            at = star + 1;
            i = ++taken;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', at) == pattern.npos;
}

}  // namespace gptrain
