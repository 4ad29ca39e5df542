#include "train/run_lines.h"

#include "catch.h"
#include "spec/run_plan.h"

namespace gptrain {
namespace {

RunPlan small_plan() {
    RunPlan plan;
    plan.model.layers = 2;
    plan.model.hidden = 16;
    plan.model.heads = plan.model.groups = 2;
    plan.model.head_dim = 8;
    plan.model.ffn = 64;
    plan.model.vocab = 320;
    plan.model.max_positions = 16;
    plan.seq_length = 16;
    plan.batch.global_batch_size = 50;
    plan.steps = 100;
    return plan;
}

TEST_CASE("a start says model, data, steps, machine and output, a line each") {
    TrainingData data;
    data.run_samples = 5000;
    data.train_tokens = 64000;
    data.learned_tokens = 64000;
    const StartSummary summary = {.device = "CPU with 2 threads",
                                  .memory_bytes = 3 << 19,
                                  .evaluates = true,
                                  .output_dir = "runs/small"};
    const auto lines = start_lines(small_plan(), data, summary);
    CHECK(lines[0] == "model: 11,968 parameters in 2 layers, fp32");
    CHECK(lines[1] == "data: 64,000 training tokens, no validation data: no evaluation");
    CHECK(lines[2] == "run: 100 steps, 80,000 tokens, 1.2 epochs");
    CHECK(lines[3] == "device: CPU with 2 threads; mesh: dp 1 pp 1 cp 1 tp 1; memory: 1.50 MiB");
    CHECK(lines[4] == "output: runs/small");
    data.learned_tokens = 1500;
    CHECK(start_lines(small_plan(), data, summary)[1] ==
          "data: 64,000 training tokens, 1,500 of them learned, no validation data: no evaluation");
}

TEST_CASE("on several ranks a start says what each of them takes") {
    RunPlan plan = small_plan();
    plan.mesh.data = 2;
    plan.mesh.tensor = 2;
    TrainingData data;
    data.run_samples = 5000;
    data.train_tokens = 1;
    const auto lines =
        start_lines(plan, data, {.device = "GPU", .memory_bytes = 1 << 30, .output_dir = "out"});
    CHECK(lines[1] == "data: 1 training token, 0 of them learned, no evaluation");
    CHECK(lines[3] == "device: GPU per rank; mesh: dp 2 pp 1 cp 1 tp 2; memory: 1.00 GiB per rank");
    plan.mesh.expert = 4;
    const auto divided =
        start_lines(plan, data, {.device = "GPU", .memory_bytes = 1 << 30, .output_dir = "out"});
    CHECK(divided[3] ==
          "device: GPU per rank; mesh: dp 2 pp 1 cp 1 tp 2 experts 4; memory: 1.00 GiB per rank");
}

TEST_CASE("epochs have two digits") {
    const auto [training_tokens, words] =
        GENERATE(table<std::int64_t, std::string>({{80000, "1.0"},
                                                   {800000, "0.10"},
                                                   {120000, "0.67"},
                                                   {1200000, "0.067"},
                                                   {6400, "13"},
                                                   {48, "1,667"}}));
    TrainingData data;
    data.run_samples = 5000;
    data.train_tokens = training_tokens;
    CHECK(start_lines(small_plan(), data, {})[2] ==
          "run: 100 steps, 80,000 tokens, " + words + " epochs");
}

TEST_CASE("epochs count tokens: samples of another length, and other passes, do not change them") {
    TrainingData data;
    data.run_samples = 5000;
    data.num_samples = 10;
    data.train_tokens = 100000;
    // 4000 samples of 5 tokens, then 1000 of 16.
    data.phase = {.first_sample = 4000, .first_token = 20000, .sources = {}};
    CHECK(start_lines(small_plan(), data, {})[2] == "run: 100 steps, 36,000 tokens, 0.36 epochs");
}

TEST_CASE("the end says what is known") {
    EndSummary summary = {
        .step = 100, .seconds = 185, .goodput = 0.9312, .checkpoint = "out/step-000100"};
    CHECK(to_text(summary) == "3 min 05 s (goodput 93.1%), checkpoint out/step-000100");
    summary.mean_loss = 3.12345;
    summary.evaluation = {100, 3.2};
    summary.tokens_per_s = 12344.6;
    CHECK(to_text(summary) ==
          "mean_loss 3.1235, val_loss 3.2000, 12345 tok/s, 3 min 05 s (goodput 93.1%), checkpoint "
          "out/step-000100");
    summary.evaluation->step = 90;
    CHECK(
        to_text(summary) ==
        "mean_loss 3.1235, val_loss 3.2000 after step 90, 12345 tok/s, 3 min 05 s (goodput 93.1%), "
        "checkpoint out/step-000100");
}

TEST_CASE("a finished run names what would make it train on") {
    CHECK(nothing_left(20, 20, {}) ==
          "the checkpoint has the run's last step, 20; a larger training.steps trains on");
    CHECK(nothing_left(20, 20, {"optimizer.lr"}) ==
          "the checkpoint has the run's last step, 20, so the new optimizer.lr has no effect; a "
          "larger training.steps trains on");
    CHECK(nothing_left(20, 15, {"optimizer.lr"}) ==
          "the checkpoint is of step 20, after training.steps 15; --resume DIR starts from an "
          "earlier one, and training.steps above 20 trains on");
    for (const char* key : {"optimizer.lr", "lr_schedule.kind", "training.clip_grad"})
        CHECK(only_trains(key));
    for (const char* key : {"training.steps", "training.eval_steps", "name", "logging.interval"})
        CHECK(!only_trains(key));
}

}  // namespace
}  // namespace gptrain
