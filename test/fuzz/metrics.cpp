// metrics.jsonl as a resumed run reads it back.
#include "fuzz/target.h"
#include "report/metrics_log.h"
#include "support/temp_folder.h"

using namespace gptrain;

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const test::TempFolder folder;
    const auto file = folder / "metrics.jsonl";
    const std::string_view before = test::as_text(bytes, size);
    test::fill(file, before);
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
        log.write_validation({1, 2.5});
        log.write_event({.step = 0});
        log.write_validation({2, 2.5});
        GPTRAIN_CHECK(!log.has_validation(1) && log.has_validation(2));
        const MetricsLog again(file);
        GPTRAIN_CHECK(!again.has_validation(1) && again.has_validation(2));
    });
    return 0;
}
