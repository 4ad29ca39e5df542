#include "cuda/gemm/tuning.h"

#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/temporary_file.h"
#include "base/text.h"

namespace gptrain::cuda {
namespace {

constexpr std::string_view form = "gptrain gemms 1: ";
/// The file and the start of its first line in earlier versions.
constexpr std::string_view old_name = "products.txt";
constexpr std::string_view old_form = "gptrain products 1: ";
constexpr std::string_view end_mark = "entries ";
/// A model has a few dozen GEMMs.
constexpr std::int64_t max_file_bytes = std::int64_t{16} << 20;

/// Removes the next line from the text and returns it; nothing if no complete line is left.
std::optional<std::string_view> next_line(std::string_view& text) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
}

using Entries = std::map<std::string, std::string>;

/// The entries after the first line; nothing if the text is incomplete or damaged.
std::optional<Entries> read_entries(std::string_view text) {
    Entries entries;
    while (const auto line = next_line(text)) {
        if (line->starts_with(end_mark)) {
            const auto count = parse_int(line->substr(end_mark.size()));
            if (!text.empty() || !count || !std::cmp_equal(*count, entries.size())) break;
            return entries;
        }
        const std::size_t blank = line->find(' ');
        if (blank == std::string_view::npos || blank == 0 || blank + 1 == line->size()) break;
        entries.emplace(line->substr(0, blank), line->substr(blank + 1));
    }
    return std::nullopt;
}

}  // namespace

void TuningTable::open(const std::string& machine) {
    machine_ = machine;
    if (file_.empty()) return;
    std::error_code error;
    std::filesystem::path file = file_;
    if (!std::filesystem::exists(file, error)) file.replace_filename(old_name);
    if (!std::filesystem::exists(file, error)) return;
    std::string contents = read_file(file, max_file_bytes, ExitCode::usage);
    if (contents.starts_with(old_form)) contents.replace(0, old_form.size(), form);
    if (replace(contents)) return;
    warn(file.string(), " is from another machine than ", machine_,
         " or is damaged: tuning GEMMs again; results may differ from earlier runs in the last "
         "bits");
}

std::optional<std::string> TuningTable::find(const std::string& key) const {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    return found->second;
}

void TuningTable::record(const std::string& key, const std::string& algorithm) {
    entries_.insert_or_assign(key, algorithm);
}

void TuningTable::save() const {
    if (file_.empty()) return;
    create_folders(file_.parent_path());
    write_file_durably(file_, to_text());
}

std::string TuningTable::to_text() const {
    std::string result = text(form, machine_, '\n');
    for (const auto& [key, algorithm] : entries_)
        result += text(key, ' ', algorithm, '\n');
    return result + text(end_mark, entries_.size(), '\n');
}

bool TuningTable::replace(std::string_view text) {
    entries_.clear();
    const auto first = next_line(text);
    if (!first || *first != std::string(form) + machine_) return false;
    auto entries = read_entries(text);
    if (!entries) return false;
    entries_ = std::move(*entries);
    return true;
}

}  // namespace gptrain::cuda
