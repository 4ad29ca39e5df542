// The variables of a template while it is evaluated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/template_value.h"

namespace gptrain {

using TemplateVariables = std::vector<std::pair<std::string, TemplateValue>>;

/// Nested scopes. The body of a macro has a scope inside the one that defines the macro, wherever
/// it is called; every other scope is inside the one before it.
class TemplateScopes {
public:
    /// The outermost scope has these variables.
    explicit TemplateScopes(TemplateVariables variables) {
        scopes_.push_back({std::move(variables), -1});
    }

    /// The number of the innermost scope.
    std::int64_t current() const { return std::ssize(scopes_) - 1; }
    void enter() { enter(current()); }
    /// Enters a scope inside the one with the number `outer`.
    void enter(std::int64_t outer) { scopes_.push_back({{}, outer}); }
    void leave() { scopes_.pop_back(); }

    /// Sets a variable of the innermost scope.
    void assign(std::string_view name, TemplateValue value) {
        for (auto& [known, old] : scopes_.back().variables) {
            if (known != name) continue;
            old = std::move(value);
            return;
        }
        scopes_.back().variables.emplace_back(name, std::move(value));
    }

    /// The variable of the innermost scope that has it; an undefined value if none has it.
    TemplateValue find(TemplateRun& run, const std::string& name) const {
        for (std::int64_t at = current(); at >= 0;
             at = scopes_[static_cast<std::size_t>(at)].outer) {
            run.count(1);
            for (const auto& [known, value] : scopes_[static_cast<std::size_t>(at)].variables)
                if (known == name) return value;
        }
        return undefined_value(name);
    }

private:
    struct Scope {
        TemplateVariables variables;
        std::int64_t outer;
    };
    std::vector<Scope> scopes_;
};

}  // namespace gptrain
