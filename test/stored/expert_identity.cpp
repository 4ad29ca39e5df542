// The keys of model.experts that a resumed run may change.
#include "base/text.h"
#include "catch.h"
#include "spec/make_plan.h"
#include "stored/identity.h"

namespace gptrain {
namespace {

const std::string words =
    "name: tiny\n"
    "output_dir: /runs/tiny\n"
    "model:\n"
    "  num_layers: 4\n"
    "  hidden_size: 64\n"
    "  num_attention_heads: 4\n"
    "  vocab_size: 512\n"
    "  experts: {count: 8, per_token: 2, ffn_hidden_size: 32}\n"
    "data:\n"
    "  train: [{prefix: /data/x}]\n"
    "training: {steps: 10}\n";

Json identity_of(const std::vector<std::string>& settings) {
    const RunSpec spec = parse_run_spec(words, "run.yaml", settings);
    return run_identity(spec, make_plan(spec, {}), {}, {});
}

/// The message on resuming the run with these settings; empty if it may go on.
std::string change(const std::vector<std::string>& settings) {
    try {
        // As read from a checkpoint.
        check_identity(parse_json(to_line(identity_of({})), "saved"), identity_of(settings), "ck");
    } catch (const Error& error) {
        CHECK(error.code() == ExitCode::usage);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("the structure of experts cannot change") {
    for (const std::string setting :
         {"count=16", "per_token=3", "ffn_hidden_size=16", "bias=true",
          "shared={ffn_hidden_size: 8}", "layers=[0]", "router.score=sigmoid",
          "router.normalize=false", "router.scale=2", "router.logit_bias=true",
          "router.groups={count: 2, keep: 1}"}) {
        CAPTURE(setting);
        const std::string key = setting.substr(0, setting.find('='));
        const std::string message = change({text("model.experts.", setting)});
        CHECK(message.starts_with(text("ck: cannot resume: model.experts.", key)));
    }
    CHECK(change({"model.experts.router.scale=2"}) ==
          "ck: cannot resume: model.experts.router.scale is 1.0 in the checkpoint but 2.0 in the "
          "run spec; change it back, or start a new run in another output_dir");
    CHECK(change({"model.experts=none"}).starts_with("ck: cannot resume: model.experts."));
}

TEST_CASE("the numbers of the balance may change, but not whether there is a bias") {
    CHECK(change({}).empty());
    CHECK(change({"model.experts.balance={bias_rate: 0.5, aux_weight: 1, sequence_aux_weight: 0, "
                  "z_weight: 3}"})
              .empty());
    CHECK(change({"model.experts.upcycling_noise=0.1"}).empty());
    CHECK(change({"model.experts.load=2"}).empty());
    CHECK(change({"model.experts.balance.bias_rate=none"}) ==
          "ck: cannot resume: model.experts.balance.bias_rate is \"a number\" in the checkpoint "
          "but \"none\" in the run spec; change it back, or start a new run in another output_dir");
}

TEST_CASE("other words for the same layers are no change") {
    CHECK(change({"model.experts.layers=[0, 1, 2, 3]"}).empty());
    CHECK(change({"model.experts.layers={first_dense: 1}"}) ==
          "ck: cannot resume: model.experts.layers is \"all\" in the checkpoint but \"1, 2, 3\" in "
          "the run spec; change it back, or start a new run in another output_dir");
}

}  // namespace gptrain
