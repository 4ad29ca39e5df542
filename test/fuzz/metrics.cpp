// metrics.jsonl as a resumed run and as a report read it.
#include <algorithm>

#include "base/json.h"
#include "fuzz/target.h"
#include "metrics/metrics_log.h"
#include "report/page.h"
#include "report/tables.h"
#include "report/watch_view.h"
#include "support/temp_folder.h"

using namespace gptrain;

namespace {

/// Every form of a report takes any log.
void check_reports(const std::filesystem::path& file) {
    RunLogReader reader(file);
    std::vector<ReportedRun> runs(1);
    runs[0].label = "run";
    runs[0].log = reader.update();
    const RunLog& log = runs[0].log;
    const auto ascends = [](const auto& lines) {
        return std::adjacent_find(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
                   return a.step >= b.step;
               }) == lines.end();
    };
    GPTRAIN_CHECK(ascends(log.steps) && ascends(log.validations) && ascends(log.tasks));
    GPTRAIN_CHECK(std::all_of(log.undone.begin(), log.undone.end(), ascends));
    const std::string page = to_html({runs, {}, "fuzz"});
    GPTRAIN_CHECK(page.ends_with("</html>\n"));
    GPTRAIN_CHECK(page.find("<script") == page.rfind("<script"));
    const Json json = parse_json(to_json(runs), "report");
    const std::string csv = to_csv(runs);
    const auto rows = std::count(csv.begin(), csv.end(), '\n') - 1;
    GPTRAIN_CHECK(rows == std::ssize(json.at("runs").at(0).at("metrics").at("step")));
    const std::string label = "run";
    GPTRAIN_CHECK(watch_view({label, log, nullptr}, {}).size() < 24);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    const std::string_view before = test::as_text(bytes, size);
    test::fill(file, before);
    check_reports(file);
    test::accepts(ExitCode::bad_input, file.string(), [&] {
        MetricsLog log(file);
        // At most a torn last line was cut off, or a line end added.
        const std::string kept = test::contents(file);
        GPTRAIN_CHECK(kept.empty() || kept.ends_with('\n'));
        if (kept != text(before, "\n")) {
            GPTRAIN_CHECK(before.starts_with(kept));
            const std::string_view cut = before.substr(kept.size());
            GPTRAIN_CHECK(cut.empty() || cut.find('\n') >= cut.size() - 1);
        }
        log.write(Validation{1, 2.5});
        log.write(RunEvent{.step = 0});
        log.write(Validation{2, 2.5});
        GPTRAIN_CHECK(!log.has_validation(1) && log.has_validation(2));
        const MetricsLog again(file);
        GPTRAIN_CHECK(!again.has_validation(1) && again.has_validation(2));
    });
    return 0;
}
