#include "report/tables.h"

#include <sstream>

#include "base/json.h"
#include "catch.h"
#include "report/logs.h"
#include "report/plan_table.h"
#include "report/spec_table.h"

namespace gptrain {
namespace {

using test::log_of;
using test::run_of;

std::vector<ReportedRun> two_runs() {
    std::vector<ReportedRun> runs;
    runs.push_back(
        run_of("runs/a,\"b\"",
               log_of({"{\"step\": 10, \"loss\": 5, \"grad_norm\": null}",
                       "{\"step\": 10, \"val_loss\": 4.5, \"val_loss_by_source\": {\"web\": "
                       "{\"loss\": 2.5, \"tokens\": 7}}}",
                       "{\"step\": 15, \"val_loss\": 4}",
                       "{\"event\": \"skip\", \"step\": 12, \"reason\": \"a \\\"b\\\"\"}"})));
    runs.push_back(
        run_of("c", log_of({"{\"step\": 1, \"loss\": 2.5, \"comm\": {\"dp\": {\"bytes\": 8, "
                            "\"seconds\": null}}}"})));
    return runs;
}

TEST_CASE("a table has a row for each step that was logged or evaluated") {
    std::istringstream csv(to_csv(two_runs()));
    std::vector<std::string> lines;
    for (std::string line; std::getline(csv, line);)
        lines.push_back(line);
    REQUIRE(lines.size() == 4);
    CHECK(lines[0] ==
          "run,step,loss,mean_loss,grad_norm,lr,loss_scale,tokens_per_s,step_time_s,"
          "tflops_per_device,consumed_samples,consumed_tokens,memory_bytes,skipped_steps,"
          "val_loss,val_loss_by_source."
          "web.loss,comm.dp.bytes,comm.dp.seconds,goodput.useful,goodput.init,goodput.load,"
          "goodput.save,goodput.eval,goodput.lost");
    CHECK(lines[1] == "\"runs/a,\"\"b\"\"\",10,5,,,,,,,,,,,,4.5,2.5,,,,,,,,");
    CHECK(lines[2] == "\"runs/a,\"\"b\"\"\",15,,,,,,,,,,,,,4,,,,,,,,,");
    CHECK(lines[3] == "c,1,2.5,,,,,,,,,,,,,,8,,,,,,,");
}

TEST_CASE("a table has columns for slices of experts where a run has them") {
    std::vector<ReportedRun> runs = two_runs();
    CHECK(to_csv(runs).find("expert_slices") == std::string::npos);
    runs.push_back(run_of("d", log_of({"{\"step\": 1, \"expert_slices\": 2, \"repeats\": 3}"})));
    const std::string csv = to_csv(runs);
    CHECK(csv.find(",skipped_steps,expert_slices,repeats,val_loss") != std::string::npos);
    CHECK(csv.find("\nd,1,,,,,,,,,,,,,2,3,,") != std::string::npos);
}

TEST_CASE("the plan's table has the MFU at the measured speed") {
    ReportedRun run = run_of("a", log_of({"{\"step\": 1, \"tokens_per_s\": 50, \"mfu\": null}"}));
    StepEstimate& estimate = run.planned.emplace().estimate.emplace();
    estimate.tokens_per_second = 200;
    estimate.mfu = 0.5;
    estimate.calibrated = true;
    const std::vector<PlanRow> rows = plan_rows(run);
    REQUIRE_FALSE(rows.empty());
    CHECK(rows.back().name == "MFU");
    CHECK(rows.back().planned == "50.0 %");
    CHECK(rows.back().measured == "12.5 %");
    CHECK(rows.back().ratio == "0.250");
}

TEST_CASE("the plan's table compares times only with a calibrated profile") {
    ReportedRun run =
        run_of("a", log_of({"{\"step\": 1, \"tokens_per_s\": 50, \"memory_bytes\": 3}"}));
    PlannedRun& planned = run.planned.emplace();
    planned.memory_bytes = 2;
    planned.estimate.emplace().tokens_per_second = 200;
    const std::vector<PlanRow> rows = plan_rows(run);
    REQUIRE(rows.size() == 3);
    CHECK(rows[0].ratio == "1.500");  // bytes are counted, not estimated
    CHECK(rows[1].name == "throughput");
    CHECK(rows[1].ratio == "rough");
    CHECK(rows[2].ratio == "rough");
}

TEST_CASE("results on tasks are columns, in the row of their step") {
    std::vector<ReportedRun> runs;
    runs.push_back(
        run_of("a", log_of({"{\"step\": 10, \"loss\": 5}", "{\"step\": 10, \"val_loss\": 4}",
                            "{\"step\": 10, \"tasks\": {\"piqa\": {\"acc\": 0.5}}}",
                            "{\"step\": 12, \"tasks\": {\"piqa\": {\"acc\": 0.75}}}"})));
    const Json metrics = parse_json(to_json(runs), "report").at("runs").at(0).at("metrics");
    CHECK(metrics.at("step") == Json::array({10, 12}));
    CHECK(metrics.at("loss") == Json::array({5, nullptr}));
    CHECK(metrics.at("val_loss") == Json::array({4, nullptr}));
    CHECK(metrics.at("tasks.piqa.acc") == Json::array({0.5, 0.75}));
}

TEST_CASE("the JSON form has the same columns, the spec and the events") {
    std::vector<ReportedRun> runs = two_runs();
    runs[1].spec = test::spec_of();
    const Json json = parse_json(to_json(runs), "report.json");
    const Json& first = json.at("runs").at(0);
    CHECK(first.at("run") == "runs/a,\"b\"");
    CHECK(first.at("spec").is_null());
    CHECK(first.at("metrics").at("step") == Json::array({10, 15}));
    CHECK(first.at("metrics").at("loss") == Json::array({5, nullptr}));
    CHECK(first.at("metrics").at("val_loss") == Json::array({4.5, 4}));
    CHECK(first.at("events").at(0).at("reason") == "a \"b\"");
    const Json& second = json.at("runs").at(1);
    CHECK(second.at("name") == "tiny");
    CHECK(second.at("spec").at("training").at("steps") == 20);
    CHECK(second.at("metrics").at("comm.dp.bytes") == Json::array({8}));
}

TEST_CASE("specs differ where a key has another value") {
    std::vector<ReportedRun> runs;
    for (const char* lr : {"optimizer.lr=0.001", "optimizer.lr=0.002"}) {
        runs.push_back(run_of(lr, {}));
        runs.back().spec = test::spec_of({lr, std::string("name=") + lr});
    }
    runs.push_back(run_of("no spec", {}));
    const std::vector<SpecRow> rows = spec_differences(runs);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].key == "optimizer.lr");
    CHECK(rows[0].values == std::vector<std::string>{"0.001", "0.002", ""});
    runs.erase(runs.begin());
    CHECK(spec_differences(runs).empty());
}

}  // namespace
}  // namespace gptrain
