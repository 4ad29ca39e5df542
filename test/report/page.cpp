#include "report/page.h"

#include "base/text.h"
#include "catch.h"
#include "report/logs.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using test::contains;
using test::run_of;

std::int64_t count(std::string_view page, std::string_view words) {
    std::int64_t found = 0;
    for (auto at = page.find(words); at != page.npos; at = page.find(words, at + 1))
        ++found;
    return found;
}

std::string page_of(std::vector<ReportedRun> runs, std::vector<Picture> pictures = {}) {
    return to_html({runs, pictures, "gptrain"});
}

RunLog short_log() {
    return test::log_of({"{\"step\": 10, \"loss\": 5.25, \"lr\": 0.001}",
                         "{\"step\": 20, \"loss\": 4.75, \"lr\": 0.002}",
                         "{\"step\": 20, \"val_loss\": 4.5}"});
}

TEST_CASE("one run's page has its figures, charts, events and spec") {
    std::vector<ReportedRun> runs;
    runs.push_back(run_of("runs/tiny", short_log()));
    runs[0].spec = test::spec_of();
    const std::string page = page_of(std::move(runs));
    for (const char* words :
         {"<h1>tiny</h1>", "4.7500", "4.5000", "perplexity 90.02", "of 20", "<figcaption>Loss ",
          "<figcaption>Learning rate ", "data-steps=\"10,20\"", "data-values=\"5.25,4.75\"",
          "None: no restart, no fault.", "num_layers: 2"})
        CHECK(contains(page, words));
    CHECK_FALSE(contains(page, "<figcaption>Gradient norm"));  // never logged
    CHECK(page.ends_with("</html>\n"));
}

TEST_CASE("a page tells of resumes and of rollbacks") {
    RunLog log = short_log();
    log.events = {{.kind = RunEvent::Kind::resume, .step = 10},
                  {.kind = RunEvent::Kind::resume, .step = 10, .rolled_back_from = 17}};
    const std::string page = page_of({run_of("run", log)});
    CHECK(contains(page, "resumed after this step"));
    CHECK(contains(page, "rolled back to this step after the loss spike of step 17"));
}

TEST_CASE("a large number in a legend has all of its digits") {
    const std::string page =
        page_of({test::run_of("run", test::log_of({"{\"step\": 1, \"tokens_per_s\": 181280.4}",
                                                   "{\"step\": 2, \"tokens_per_s\": 181280.4}"}))});
    CHECK(test::contains(page, " <b>181,280</b>"));
}

TEST_CASE("several runs have a colour each and a table of what differs") {
    std::vector<ReportedRun> runs;
    for (const char* lr : {"0.001", "0.002"}) {
        runs.push_back(run_of(text("runs/", lr), short_log()));
        runs.back().spec = test::spec_of({text("optimizer.lr=", lr)});
    }
    const std::string page = page_of(std::move(runs));
    for (const char* words :
         {"<h1>2 training runs</h1>", "runs/0.001", "runs/0.002", "class=\"curve c1\"",
          "<th>optimizer.lr</th><td>0.001</td><td>0.002</td>"})
        CHECK(contains(page, words));
}

TEST_CASE("a page of a run without a step is a page") {
    const std::string page = page_of([] {
        std::vector<ReportedRun> runs;
        runs.push_back(run_of("runs/new", {}));
        return runs;
    }());
    CHECK(contains(page, "runs/new"));
    CHECK(count(page, "<figure") == 0);
}

TEST_CASE("results of tasks are a row for each metric") {
    std::vector<ReportedRun> runs;
    runs.push_back(run_of("runs/a", short_log()));
    runs.push_back(run_of("runs/b", short_log()));
    runs[0].tasks = task_metrics(
        Json::parse(
            R"({"piqa": {"documents": 8, "few_shot": 2, "acc": 0.75, "acc_stderr": 0.1637, "norm": 1,
                         "norm_stderr": null}})"),
        "tasks.json");
    const std::string page = page_of(std::move(runs));
    CHECK(contains(page, "<th>piqa, acc</th><td>0.75 <small>\u00b1 0.16</small></td><td></td>"));
    CHECK(contains(page, "<th>piqa, norm</th><td>1 <small></small></td>"));
    CHECK_FALSE(contains(page, "few_shot"));
}

TEST_CASE("each task that a run measured has a chart of its first metric") {
    std::vector<ReportedRun> runs;
    runs.push_back(
        run_of("runs/a", test::log_of({"{\"step\": 5, \"tasks\": {\"piqa\": {\"acc\": 0.5, "
                                       "\"acc_norm\": 1}}}",
                                       "{\"step\": 9, \"tasks\": {\"piqa\": {\"acc\": 0.75}}}"})));
    const std::string page = page_of(std::move(runs));
    CHECK(count(page, "<figure") == 1);
    CHECK(contains(page, "piqa"));
    CHECK(contains(page, "0.75"));
}

TEST_CASE("a file that holds no results of tasks is named") {
    const std::string json =
        GENERATE(as<std::string>(), "[]", "{\"piqa\": 3}", "{\"piqa\": {\"acc\": \"1\"}}",
                 "{\"piqa\": {\"acc\": 1, \"acc_stderr\": \"1\"}}");
    CAPTURE(json);
    CHECK(test::message_of(ExitCode::bad_input, [&] {
              task_metrics(Json::parse(json), "tasks.json");
          }).starts_with("tasks.json"));
}

TEST_CASE("texts of a run cannot become elements, attributes or scripts") {
    const std::string hostile = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>&amp;";
    std::vector<ReportedRun> runs;
    runs.push_back(run_of(hostile, short_log()));
    runs.push_back(run_of("two", short_log()));
    for (ReportedRun& run : runs) {
        run.log.events = {{.kind = RunEvent::Kind::skip, .step = 10, .reason = hostile}};
        run.spec = test::spec_of();
        run.spec->name = hostile;
        run.no_plan = hostile;
    }
    const std::string page =
        page_of(std::move(runs), {{hostile, "<svg xmlns='x'><script>alert(1)</script></svg>"}});
    CHECK(count(page, "<script") == 1);
    CHECK(count(page, "</script") == 1);
    CHECK(count(page, "alert(1)") ==
          count(page, "&gt;alert(1)") + count(page, "onerror=alert(1)&gt;"));
    CHECK(count(page, "<img") == 1);
    CHECK_FALSE(contains(page, "\"'>"));
}

TEST_CASE("the only script of a page has the number that its policy names, new for each page") {
    const auto nonce_of = [] {
        std::vector<ReportedRun> runs;
        runs.push_back(run_of("runs/tiny", short_log()));
        const std::string page = page_of(std::move(runs));
        const std::string before = "script-src 'nonce-";
        const auto begin = page.find(before) + before.size();
        const std::string nonce = page.substr(begin, page.find('\'', begin) - begin);
        CHECK(contains(page, "<script nonce=\"" + nonce + "\">"));
        CHECK_FALSE(contains(page, "http:"));
        CHECK_FALSE(contains(page, "https:"));
        return nonce;
    };
    const std::string first = nonce_of();
    CHECK(first.size() >= 16);
    CHECK(first != nonce_of());
}

TEST_CASE("a long log makes a short page") {
    RunLog log;
    for (int step = 1; step <= 20'000; ++step) {
        log.add(text("{\"step\": ", step, ", \"loss\": ", step == 7777 ? 99 : 2 + step % 7, "}"));
        if (step % 2 == 0) log.add(text("{\"event\": \"skip\", \"step\": ", step, "}"));
    }
    std::vector<ReportedRun> runs;
    runs.push_back(run_of("runs/long", std::move(log)));
    const std::string page = page_of(std::move(runs));
    CHECK(page.size() < 400'000);
    CHECK(contains(page, ",99,"));
    CHECK(contains(page, "And 9,800 more"));
}

}  // namespace
}  // namespace gptrain
