// Which attention kernels the ranks of a run use after a failed check.
#include "app/agreed_attention.h"

#include "catch.h"
#include "support/captured_stderr.h"
#include "support/temp_folder.h"

namespace gptrain {
namespace {

using cuda::AttentionChoice;

const std::vector<std::string> sound = {"", ""};
const std::vector<std::string> faulty = {"", "rank 1: dq for head_dim 64 by 0.5"};

struct Outcome {
    std::vector<AttentionChoice> choices;  ///< of each rank
    std::string warnings;
    bool operator==(const Outcome&) const = default;
};

Outcome outcome(const std::vector<std::string>& faults, AttentionChoice wanted) {
    const test::CapturedStderr captured;
    std::vector<AttentionChoice> choices;
    for (const int rank : {0, 1})
        choices.push_back(agreed_attention(faults, wanted, rank));
    return {choices, captured.text()};
}

}  // namespace

TEST_CASE("one rank of each node checks the kernels, if it runs them") {
    // Ranks 0 and 4 have GPUs of another kind.
    const std::vector<std::string> nodes = {"", "0", "0", "3", "", "3"};
    std::vector<int> checking;
    for (int rank = 0; rank < 6; ++rank)
        if (checks_attention(nodes, rank)) checking.push_back(rank);
    CHECK(checking == std::vector{1, 3});
}

TEST_CASE("a check that runs out of time is repeated once, with a longer limit") {
    std::vector<AttentionCheck> answers;
    std::vector<std::int64_t> limits;
    const auto fault_with = [&](std::vector<AttentionCheck> given) {
        answers = std::move(given);
        limits.clear();
        const test::CapturedStderr captured;
        return attention_fault([&](std::chrono::seconds limit) {
            limits.push_back(limit.count());
            return answers.at(limits.size() - 1);
        });
    };
    const AttentionCheck late = {.fault = "did not end in time", .timed_out = true};
    CHECK(fault_with({{}}).empty());
    CHECK(limits.size() == 1);
    CHECK(fault_with({{.fault = "dq by 0.5"}}) == "dq by 0.5");
    CHECK(limits.size() == 1);
    CHECK(fault_with({late, {}}).empty());
    CHECK(limits.size() == 2);
    CHECK(limits[1] > limits[0]);
    CHECK(fault_with({late, late}) == "did not end in time");
}

TEST_CASE("kernels that were right are not checked again on the node, wrong ones are") {
    const test::TempFolder folder;
    const NodeCache cache(folder / "node");
    int checks = 0;
    const auto fault = [&](const std::string& device, const std::string& program,
                           const std::string& found) {
        return attention_fault_or_recall(cache, device, program, [&](std::chrono::seconds) {
            ++checks;
            return AttentionCheck{.fault = found};
        });
    };
    CHECK(fault("H100 1", "build 1", "dq by 0.5") == "dq by 0.5");
    CHECK(fault("H100 1", "build 1", "").empty());
    CHECK(checks == 2);
    CHECK(fault("H100 1", "build 1", "dq by 0.5").empty());
    CHECK(checks == 2);
    // Another GPU, another program, and a GPU that has no name.
    CHECK(fault("H100 2", "build 1", "dq by 0.5") == "dq by 0.5");
    CHECK(fault("H100 1", "build 2", "dq by 0.5") == "dq by 0.5");
    for (const char* found : {"", "dq by 0.5"})
        CHECK(fault("", "build 1", found) == found);
    CHECK(checks == 6);
}

TEST_CASE("a fault on one rank makes all take the portable kernels, with one warning") {
    const Outcome agreed = outcome(faulty, AttentionChoice::automatic);
    CHECK(agreed.choices == std::vector(2, AttentionChoice::portable));
    CHECK(agreed.warnings ==
          "warning: the attention kernels for sm_90a failed their check (rank 1: dq for head_dim "
          "64 by 0.5); using the portable ones; please report this\n");
}

TEST_CASE("a fault is an error where the user asked for the faulty kernels") {
    for (const int rank : {0, 1}) {
        const std::string message = test::message_of(
            ExitCode::usage, [&] { agreed_attention(faulty, AttentionChoice::sm90, rank); });
        CHECK(message ==
              "GPTRAIN_CUDA_ATTENTION=sm90: these kernels failed their check (rank 1: dq for "
              "head_dim 64 by 0.5); unset it to use the portable ones");
    }
}

TEST_CASE("without a fault each rank asks for what the user wants") {
    const auto wanted =
        GENERATE(AttentionChoice::automatic, AttentionChoice::portable, AttentionChoice::sm90);
    CHECK(outcome(sound, wanted) == Outcome{{wanted, wanted}, ""});
}

}  // namespace gptrain
