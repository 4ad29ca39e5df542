#include "serve/metrics.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"

namespace gptrain::test {

TEST_CASE("every sample follows the help and the type of its metric") {
    using std::chrono::seconds;
    ServeMetrics metrics;
    metrics.count_request("/v1/completions", 200);
    metrics.count_request("/v1/completions", 200);
    metrics.count_request("/health", 404);
    metrics.count_answered(seconds(2), seconds(5));
    metrics.count_step(seconds(3), 7);
    metrics.new_tokens = 11;
    std::istringstream lines(metrics.to_text());
    std::string line;
    std::string help;
    std::string name;
    std::string type;
    std::vector<std::string> samples;
    while (std::getline(lines, line)) {
        CAPTURE(line);
        std::istringstream words(line);
        std::string first;
        std::string keyword;
        words >> first;
        if (first == "#") {
            words >> keyword;
            if (keyword == "HELP") {
                words >> help;
            } else {
                REQUIRE(keyword == "TYPE");
                words >> name >> type;
                CHECK(name == help);
                CHECK((type == "counter" || type == "gauge" || type == "summary"));
            }
            continue;
        }
        const std::string sample = first.substr(0, first.find('{'));
        if (type == "summary") {
            CHECK((sample == name + "_sum" || sample == name + "_count"));
        } else {
            CHECK(sample == name);
        }
        CHECK((type == "counter") == sample.ends_with("_total"));
        samples.push_back(line);
    }
    for (const char* expected :
         {"gptrain_requests_total{path=\"/v1/completions\",status=\"200\"} 2",
          "gptrain_requests_total{path=\"/health\",status=\"404\"} 1",
          "gptrain_first_token_seconds_sum 2", "gptrain_answer_seconds_sum 5",
          "gptrain_answer_seconds_count 1", "gptrain_step_seconds_total 3",
          "gptrain_step_tokens_total 7", "gptrain_new_tokens_total 11"})
        CHECK(std::find(samples.begin(), samples.end(), expected) != samples.end());
}

}  // namespace gptrain::test
