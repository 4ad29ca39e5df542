#include "report/spec_table.h"

#include <map>

#include "spec/spec_json.h"

namespace gptrain {
namespace {

/// Calls visit(key, value) for every value that is not a section.
void for_each_value(const Json& section, const std::string& prefix, const auto& visit) {
    for (const auto& [key, value] : section.items()) {
        const std::string path = prefix + key;
        if (value.is_object() && !value.empty()) {
            for_each_value(value, path + '.', visit);
        } else {
            visit(path, value.is_string() ? value.template get<std::string>() : to_line(value));
        }
    }
}

}  // namespace

std::vector<SpecRow> spec_differences(std::span<const ReportedRun> runs) {
    std::vector<SpecRow> rows;
    std::map<std::string, std::size_t> row_of;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (!runs[i].spec) continue;
        for_each_value(to_json(*runs[i].spec), "", [&](const auto& key, const auto& value) {
            const auto [found, added] = row_of.try_emplace(key, rows.size());
            if (added) rows.push_back({key, std::vector<std::string>(runs.size())});
            rows[found->second].values[i] = value;
        });
    }
    std::erase_if(rows, [&](const SpecRow& row) {
        if (row.key == "name" || row.key == "output_dir") return true;
        const std::string* first = nullptr;
        for (std::size_t i = 0; i < runs.size(); ++i) {
            if (!runs[i].spec) continue;
            if (first != nullptr && row.values[i] != *first) return false;
            first = &row.values[i];
        }
        return true;
    });
    return rows;
}

}  // namespace gptrain
