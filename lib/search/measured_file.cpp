#include "search/measured_file.h"

#include <string_view>
#include <utility>

#include "base/file.h"

namespace gptrain {
namespace {

constexpr std::int64_t max_file_bytes = std::int64_t{64} << 20;

/// How a measurement ended; nothing in the record of its start, and if it was interrupted.
std::optional<MeasuredTime> time_in(const JsonReader& record) {
    if (record.has("failure"))
        return MeasuredTime{.seconds = 0, .spread = 0, .failure = record.string("failure")};
    if (!record.has("step_seconds")) return std::nullopt;
    return MeasuredTime{
        .seconds = record.number("step_seconds"), .spread = record.number("spread"), .failure = ""};
}

}  // namespace

MeasuredFile::MeasuredFile(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code error;
    if (!std::filesystem::exists(path_, error)) return;
    const std::string lines = read_file(path_, max_file_bytes);
    std::string_view rest = lines;
    for (int number = 1; !rest.empty(); ++number) {
        const std::size_t end = rest.find('\n');
        const std::string source = text(path_.string(), ":", number);
        if (end == std::string_view::npos) {
            // Cut it off: the next line must not be joined to it.
            File(path_, File::Mode::update)
                .truncate(static_cast<std::int64_t>(lines.size() - rest.size()));
            return;
        }
        add_line(rest.substr(0, end), source);
        rest.remove_prefix(end + 1);
    }
}

void MeasuredFile::add_line(std::string_view line, const std::string& source) {
    try {
        Json record = parse_json(line, source);
        const JsonReader reader(record, source);
        reader.object("candidate");
        time_in(reader);
        records_.push_back(std::move(record));
    } catch (const Error& error) {
        fail(ExitCode::bad_input, error.what(),
             "; remove that line, and its candidate is measured again");
    }
}

std::optional<MeasuredTime> MeasuredFile::find(const Json& candidate) const {
    std::optional<MeasuredTime> last;
    int unfinished = 0;  // starts since the last one that ended
    for (const Json& record : records_) {
        if (record["candidate"] != candidate) continue;
        last = time_in(JsonReader(record, path_.string()));
        const bool ended = last || record.contains("interrupted");
        unfinished = ended ? 0 : unfinished + 1;
    }
    if (unfinished < 2) return last;
    return MeasuredTime{.seconds = 0,
                        .spread = 0,
                        .failure =
                            "the program ended twice while it measured this: it crashed, was "
                            "killed or hung"};
}

void MeasuredFile::start(const Json& candidate) {
    add({{"candidate", candidate}});
}

void MeasuredFile::end(const Json& candidate, const MeasuredTime& time) {
    if (time.failure.empty()) {
        add({{"candidate", candidate}, {"step_seconds", time.seconds}, {"spread", time.spread}});
    } else {
        add({{"candidate", candidate}, {"failure", time.failure}});
    }
}

void MeasuredFile::interrupt(const Json& candidate) {
    add({{"candidate", candidate}, {"interrupted", true}});
}

void MeasuredFile::add(const Json& record) {
    File file(path_, File::Mode::append);
    file.write(to_line(record) + "\n");
    file.sync();
    file.close();
    records_.push_back(record);
}

}  // namespace gptrain
