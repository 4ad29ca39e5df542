#include "text/data_files.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "text/data_card.h"

namespace gptrain {
namespace {

using Files = std::vector<std::string>;
/// Files by the name of their split.
using Splits = std::map<std::string, Files>;

/// "train, test": the keys, for a message.
std::string names_of(const auto& parts) {
    constexpr std::size_t most = 8;
    std::string names;
    std::size_t count = 0;
    for (const auto& [name, files] : parts) {
        if (++count > most) return names + ", ...";
        append(names, text(count > 1 ? ", " : "", name));
    }
    return names;
}

class FileChoice {
public:
    FileChoice(const std::filesystem::path& folder, const FolderChoice& choice, const Files& files)
        : folder_(folder), choice_(choice), all_(files) {}

    /// The chosen files.
    Files choose() {
        Splits splits = splits_of_card();
        if (splits.empty() && !choice_.subset.empty())
            refuse("has no subset ", choice_.subset, subsets_.empty() ? "" : "; its subsets are ",
                   names_of(subsets_));
        if (splits.empty()) splits = splits_in_names();
        return files_of(std::move(splits));
    }

    /// The choice in words; empty if there was none.
    const std::string& chosen() const { return chosen_; }

private:
    [[noreturn]] void refuse(const auto&... parts) const {
        fail(ExitCode::usage, folder_.string(), ": ", parts...);
    }

    std::string in_folder(const std::string& file) const {
        return std::filesystem::path(file).lexically_relative(folder_).generic_string();
    }

    Files matching(const std::vector<std::string>& patterns) const {
        Files files;
        for (const std::string& file : all_) {
            const std::string path = in_folder(file);
            const bool fits = std::ranges::any_of(patterns, [&](const std::string& pattern) {
                return matches_pattern(path, pattern);
            });
            if (fits) files.push_back(file);
        }
        return files;
    }

    /// The splits of the chosen subset. Subsets and splits of which the folder has no file count as
    /// missing: few people download all. Empty if the card divides none of the files.
    Splits splits_of_card() {
        std::string fallback;
        for (const CardSubset& subset : read_data_card(folder_ / "README.md")) {
            Splits splits;
            for (const CardSplit& split : subset.splits) {
                if (Files files = matching(split.patterns); !files.empty())
                    splits[split.name] = std::move(files);
            }
            if (splits.empty()) continue;
            if (subset.is_default) fallback = subset.name;
            subsets_[subset.name] = std::move(splits);
        }
        if (subsets_.empty()) return {};
        std::string name = choice_.subset;
        if (name.empty()) name = subsets_.size() == 1 ? subsets_.begin()->first : fallback;
        if (name.empty())
            refuse("has the subsets ", names_of(subsets_), "; choose one with --subset");
        const auto found = subsets_.find(name);
        if (found == subsets_.end()) return {};
        if (subsets_.size() > 1) chosen_ = text(" subset ", name);
        return found->second;
    }

    /// The splits that names state, if they state one for every file.
    Splits splits_in_names() const {
        Splits splits;
        for (const std::string& file : all_)
            splits[split_in_name(in_folder(file))].push_back(file);
        if (splits.contains("")) return {{"", all_}};
        return splits;
    }

    Files files_of(Splits splits) {
        const std::string& wanted = choice_.split;
        if (wanted == FolderChoice::all_splits) return all_of(splits);
        if (splits.contains("")) {
            if (!wanted.empty()) refuse("--split ", wanted, ": its files have no splits");
            return std::move(splits.begin()->second);
        }
        if (wanted.empty() && splits.size() > 1)
            refuse("has the splits ", names_of(splits), "; choose one with --split, or all");
        const auto found = wanted.empty() ? splits.begin() : splits.find(wanted);
        if (found == splits.end())
            refuse("has no split ", wanted, "; its splits are ", names_of(splits));
        if (splits.size() > 1) append(chosen_, text(" split ", found->first));
        return std::move(found->second);
    }

    static Files all_of(const Splits& splits) {
        Files all;
        for (const auto& [name, files] : splits)
            all.insert(all.end(), files.begin(), files.end());
        std::sort(all.begin(), all.end());
        // The patterns of several splits may fit one file.
        all.erase(std::unique(all.begin(), all.end()), all.end());
        return all;
    }

    const std::filesystem::path& folder_;
    const FolderChoice& choice_;
    const Files& all_;
    std::map<std::string, Splits> subsets_;
    std::string chosen_;
};

}  // namespace

std::string choose_files(const std::filesystem::path& folder, const FolderChoice& choice,
                         std::vector<std::string>& files) {
    FileChoice choose(folder, choice, files);
    Files chosen = choose.choose();
    const auto all = std::ssize(files);
    files = std::move(chosen);
    if (std::ssize(files) == all && choose.chosen().empty()) return "";
    return text(folder.string(), ": reads", choose.chosen(), ": ", files.size(), " of ",
                counted(all, "file"));
}

}  // namespace gptrain
