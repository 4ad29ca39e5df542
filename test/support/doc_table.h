// Tables of pages in docs/ that programs write and compare.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace gptrain::test {

using Row = std::vector<std::string>;

/// A page with tables, each known by the line of its titles.
class DocPage {
public:
    explicit DocPage(const std::filesystem::path& path) : path_(path) {
        std::ifstream file(path);
        if (!file) fail(ExitCode::io, path.string(), ": cannot be read");
        for (std::string line; std::getline(file, line);)
            lines_.push_back(line);
    }

    /// The rows of the table with these titles.
    std::vector<Row> rows(const Row& titles) const {
        std::vector<Row> all;
        for (std::size_t i = begin(titles); i < lines_.size() && is_row(lines_[i]); ++i)
            all.push_back(cells(lines_[i]));
        return all;
    }
    /// Prints how the rows differ from what the page has; returns whether they do not. Rows that
    /// `agree(was, now)` holds for may differ.
    template <class Agree>
    bool compare(const Row& titles, const std::vector<Row>& now, const Agree& agree) const {
        const std::vector<Row> was = rows(titles);
        bool same = true;
        for (std::size_t i = 0; i < std::max(was.size(), now.size()); ++i) {
            const std::string old_line = i < was.size() ? line(was[i]) : "nothing";
            const std::string new_line = i < now.size() ? line(now[i]) : "nothing";
            if (old_line == new_line) continue;
            if (i < was.size() && i < now.size() && agree(was[i], now[i])) continue;
            print(new_line, "\n  was ", old_line);
            same = false;
        }
        return same;
    }
    bool compare(const Row& titles, const std::vector<Row>& now) const {
        return compare(titles, now, [](const Row&, const Row&) { return false; });
    }
    void replace(const Row& titles, const std::vector<Row>& now) {
        const std::size_t first = begin(titles);
        std::size_t last = first;
        while (last < lines_.size() && is_row(lines_[last]))
            ++last;
        const auto at = [&](std::size_t i) {
            return lines_.begin() + static_cast<std::ptrdiff_t>(i);
        };
        lines_.erase(at(first), at(last));
        std::vector<std::string> added;
        for (const Row& row : now)
            added.push_back(line(row));
        lines_.insert(at(first), added.begin(), added.end());
    }
    void write() const {
        std::ofstream file(path_);
        for (const std::string& each : lines_)
            file << each << '\n';
        file.close();
        if (!file) fail(ExitCode::io, path_.string(), ": cannot be written");
    }

private:
    static bool is_row(const std::string& text) { return text.starts_with('|'); }
    static std::string line(const Row& row) {
        std::string text = "|";
        for (const std::string& cell : row)
            text += " " + cell + " |";
        return text;
    }
    static Row cells(const std::string& text) {
        Row row;
        std::istringstream stream(text.substr(1));
        for (std::string cell; std::getline(stream, cell, '|');)
            row.push_back(cell.substr(1, cell.size() - 2));
        return row;
    }
    /// The first line below the titles and the rule under them.
    std::size_t begin(const Row& titles) const {
        for (std::size_t i = 0; i < lines_.size(); ++i)
            if (lines_[i] == line(titles)) return i + 2;
        fail(ExitCode::bug, path_.string(), ": no table with the titles ", line(titles));
    }

    std::filesystem::path path_;
    std::vector<std::string> lines_;
};

}  // namespace gptrain::test
