// The demands of the precision on the model and the mesh.
#include "planned_spec.h"
#include "spec/quantised_checks.h"

namespace gptrain::test {

TEST_CASE("fp8 needs blocks between the first and the last, and multiples of 16") {
    const std::vector<std::string> fits = {"precision.compute=fp8", "model.num_layers=4",
                                           "model.hidden_size=64", "model.num_attention_heads=4",
                                           "training.seq_length=32"};
    const RunPlan plan = plan_of(fits);
    CHECK(plan.fp8);
    CHECK(plan.compute == DType::bf16);
    const auto fault = [&](const std::string& setting) {
        std::vector<std::string> settings = fits;
        settings.push_back(setting);
        return contradiction(settings);
    };
    CHECK(fault("model.num_layers=2") ==
          "precision.compute: fp8 is used in all blocks except the first and the last, "
          "but model.num_layers is 2; set it to bf16");
    CHECK(fault("model.ffn_hidden_size=72") ==
          "precision.compute: fp8 needs sizes that are multiples of 16, but model.ffn_hidden_size "
          "is 72; change it or set precision.compute to bf16");
    CHECK(fault("training.seq_length=31") ==
          "precision.compute: fp8 needs sizes that are multiples of 16, but "
          "training.micro_batch_size x seq_length is 31; change it or set precision.compute to "
          "bf16");
    // Of each rank.
    const auto on_two = [&](std::vector<std::string> settings) {
        settings.insert(settings.begin(), fits.begin(), fits.end());
        return contradiction(settings, {.world_size = 2});
    };
    CHECK(holds(on_two({"parallel.tensor=2", "model.ffn_hidden_size=48"}),
                "model.ffn_hidden_size is 24 on each of 2 ranks of parallel.tensor; change it"));
    CHECK(
        holds(on_two({"parallel.tensor=2", "model.head_dim=4"}),
              "model.num_attention_heads x head_dim is 8 on each of 2 ranks of parallel.tensor;"));
    // q, k and v are one matrix, whose groups need no multiple of 16 by themselves.
    const auto grouped = [&](const std::string& groups) {
        std::vector<std::string> settings = fits;
        settings.insert(settings.end(), {"model.head_dim=4", "model.num_query_groups=" + groups});
        return contradiction(settings);
    };
    CHECK(grouped("2") == "(accepted)");
    CHECK(
        holds(grouped("1"), "(model.num_attention_heads + 2 x num_query_groups) x head_dim is 24"));
    CHECK(holds(on_two({"parallel.context=2", "training.seq_length=48"}),
                "seq_length is 24 on each of 2 ranks of parallel.context; change it"));
}

TEST_CASE("scales for blocks need fp8, and whole blocks of every matrix") {
    const std::vector<std::string> fits = {
        "precision.compute=fp8", "precision.fp8_recipe=block",  "model.num_layers=3",
        "model.hidden_size=256", "model.num_attention_heads=4", "model.ffn_hidden_size=512",
        "training.seq_length=32"};
    CHECK(plan_of(fits).fp8_blocks);
    CHECK_FALSE(plan_of({"precision.compute=fp8", "model.num_layers=3", "model.hidden_size=64",
                         "model.num_attention_heads=4", "training.seq_length=32"})
                    .fp8_blocks);
    const auto gradients = [&](const std::vector<std::string>& changes) {
        std::vector<std::string> settings = fits;
        settings.insert(settings.end(), changes.begin(), changes.end());
        return plan_of(settings).fp8_weight_gradients;
    };
    CHECK_FALSE(gradients({}));
    CHECK(gradients({"precision.fp8_weight_gradients=fp8"}));
    CHECK(gradients({"precision.fp8_recipe=tensor"}));
    CHECK_FALSE(gradients({"precision.fp8_recipe=tensor", "precision.fp8_weight_gradients=bf16"}));
    const auto fault = [&](const std::vector<std::string>& changes, std::int64_t ranks = 1) {
        std::vector<std::string> settings = fits;
        settings.insert(settings.end(), changes.begin(), changes.end());
        return contradiction(settings, {.world_size = ranks});
    };
    CHECK(fault({}) == "(accepted)");
    CHECK(fault({"parallel.tensor=2"}, 2) == "(accepted)");
    CHECK(fault({"precision.compute=bf16"}) ==
          "precision.fp8_recipe: block needs precision.compute fp8, but it is bf16; set that or "
          "remove the key");
    CHECK(fault({"model.ffn_hidden_size=448"}) ==
          "precision.fp8_recipe: block needs sizes that are multiples of 128, but "
          "model.ffn_hidden_size is 448; change it or set precision.fp8_recipe to tensor");
    CHECK(holds(fault({"parallel.tensor=2", "model.ffn_hidden_size=384"}, 2),
                "model.ffn_hidden_size is 192 on each of 2 ranks of parallel.tensor; change it"));
    CHECK(holds(fault({"parallel.tensor=4"}, 4), "num_attention_heads x head_dim is 64 on each"));
    CHECK(holds(fault({"model.num_query_groups=1"}), "num_query_groups x head_dim is 64; change"));
    CHECK(holds(fault({"training.seq_length=40"}), "multiples of 16, but training.micro_batch"));
}

TEST_CASE("int8 is for weights that nothing else keeps") {
    CHECK(plan_of({"precision.frozen=int8"}).int8_frozen);
    CHECK(contradiction({"precision.frozen=int8", "precision.compute=fp8", "model.num_layers=4"},
                        {}) ==
          "precision.frozen: int8 cannot be used with precision.compute fp8, which stores "
          "weights in its own format; set precision.compute to bf16 or remove precision.frozen");
    CHECK(contradiction({"precision.frozen=int8", "training.frozen=[wte.weight]"}, {}) ==
          "precision.frozen: int8 cannot be used with training.frozen, because checkpoints "
          "must hold frozen tensors exactly; remove one of them");
}

TEST_CASE("bf16 main weights need bf16 and AdamW") {
    const std::string bf16 = "precision.main_weights=bf16";
    CHECK(plan_of({bf16, "precision.compute=bf16"}).optimizer.main_weights == DType::bf16);
    for (const std::string compute : {"fp32", "fp16"})
        CHECK(contradiction({bf16, "precision.compute=" + compute}) ==
              "precision.main_weights: bf16 needs precision.compute bf16, but that is " + compute +
                  "; set precision.compute to bf16 or remove precision.main_weights");
    CHECK(holds(
        contradiction({bf16, "precision.compute=fp8", "model.num_layers=4", "model.hidden_size=64",
                       "model.num_attention_heads=4", "training.seq_length=32"}),
        "but that is fp8; set"));
    CHECK(holds(contradiction({bf16, "precision.compute=bf16", "optimizer.name=muon"}),
                "cannot be used with optimizer.name muon, which updates fp32 weights"));
}

TEST_CASE("each rank has whole blocks of 8-bit moments") {
    const auto fault = [](std::vector<std::string> settings, std::int64_t ranks) {
        settings.insert(settings.end(), {"optimizer.state=8bit", "model.num_attention_heads=4"});
        return contradiction(settings, {.world_size = ranks});
    };
    const std::string hidden = "model.hidden_size=";
    const std::string tensor = "parallel.tensor=";
    CHECK(plan_of({"optimizer.state=8bit"}).optimizer.state == MomentFormat::eight_bit);
    CHECK(fault({hidden + "512", tensor + "2"}, 2) == "(accepted)");
    CHECK(fault({hidden + "512", tensor + "4"}, 4) ==
          "optimizer.state: 8bit: parallel.tensor 4 cuts h.0.attn.proj.weight after each 128 "
          "elements, which is not a multiple of a block of 256; lower it, or set optimizer.state "
          "to bf16 or fp32");
    // Matrices of fewer than 4,096 elements, and those that Muon updates, may be cut anywhere.
    CHECK(fault({hidden + "32", "model.ffn_hidden_size=64", "model.vocab_size=100", tensor + "4"},
                4) == "(accepted)");
    CHECK(fault({hidden + "512", tensor + "4", "optimizer.name=muon"}, 4) == "(accepted)");
    // k and v follow q without a gap.
    CHECK(holds(fault({hidden + "65", "model.head_dim=130", "model.num_query_groups=4"}, 1),
                "h.0.attn.k.weight begins 33800 elements behind the first tensor of "
                "h.0.attn.qkv.weight on a rank"));
}

TEST_CASE("a training run keeps in int8 only the model of an adapter") {
    const auto fault = [](const std::vector<std::string>& settings) {
        return usage_fault([&] { check_frozen_format(minimal(settings)); });
    };
    CHECK(fault({}) == "(accepted)");
    CHECK(fault({"precision.frozen=int8", "adapter={kind: lora}", "init_from=/m"}) == "(accepted)");
    CHECK(holds(fault({"precision.frozen=int8"}),
                "precision.frozen: int8 is for the model of an adapter, but this run has none"));
}

TEST_CASE("nf4 is for weights that nothing else keeps") {
    const RunPlan plan = plan_of({"precision.frozen=nf4", "precision.nf4_double=true"});
    CHECK(plan.nf4_frozen);
    CHECK(plan.nf4_double);
    CHECK_FALSE(plan.int8_frozen);
    CHECK_FALSE(plan_of({"precision.frozen=nf4"}).nf4_double);
    CHECK(contradiction({"precision.nf4_double=true", "precision.frozen=int8"}) ==
          "precision.nf4_double needs precision.frozen: nf4; set that or remove nf4_double");
    CHECK(holds(
        contradiction({"precision.frozen=nf4", "precision.compute=fp8", "model.num_layers=4"}),
        "precision.frozen: nf4 cannot be used with precision.compute fp8"));
    CHECK(holds(contradiction({"precision.frozen=nf4", "training.frozen=[wte.weight]"}),
                "precision.frozen: nf4 cannot be used with training.frozen"));
    CHECK(holds(usage_fault([] { check_frozen_format(minimal({"precision.frozen=nf4"})); }),
                "precision.frozen: nf4 is for the model of an adapter"));
}

TEST_CASE("every matrix in nf4, and every rank's part of it, has whole blocks") {
    const auto fault = [](const std::string& hidden, const std::string& ffn,
                          const std::string& tensor) {
        return contradiction(
            {"model.hidden_size=" + hidden, "model.num_attention_heads=4",
             "model.ffn_hidden_size=" + ffn, "precision.frozen=nf4", "parallel.tensor=" + tensor},
            {.world_size = 4, .dry_run = true});
    };
    CHECK(fault("256", "512", "4") == "(accepted)");
    CHECK(fault("128", "256", "4") ==
          "precision.frozen: nf4 keeps blocks of 64 elements, but parallel.tensor 4 cuts "
          "h.N.attn.proj.weight [128, 128] into parts of 128 x 32, inside blocks; lower "
          "parallel.tensor or set precision.frozen to int8");
    CHECK(holds(fault("256", "384", "4"),
                "cuts h.N.mlp.proj.weight [256, 384] into parts of 256 x 96"));
    // Rows may end inside blocks, but not parts.
    CHECK(fault("96", "384", "1") == "(accepted)");
    CHECK(holds(fault("12", "48", "1"),
                "the 12 x 12 of h.N.attn.q.weight are no multiple of that; set precision.frozen"));
    // Ranks that divide the experts have them whole.
    const std::string experts = "model.experts={count: 4, per_token: 2, ffn_hidden_size: 96}";
    const auto with_experts = [&](const std::string& ranks) {
        return contradiction(
            {"model.hidden_size=512", "precision.frozen=nf4", experts, "parallel.tensor=2",
             "parallel.sequence_parallel=true", "parallel.expert=" + ranks},
            {.world_size = 2, .dry_run = true});
    };
    CHECK(holds(with_experts("1"), "h.N.experts.proj.weight [512, 96] into parts of 512 x 48"));
    CHECK(with_experts("2") == "(accepted)");
}

TEST_CASE("tp that cuts blocks of int8 is a warning") {
    const auto warning = [](const std::string& heads, const std::string& ffn, std::string tensor,
                            const std::string& frozen = "int8") {
        const std::vector<std::string> settings = {
            "model.hidden_size=192", "model.num_attention_heads=" + heads,
            "model.ffn_hidden_size=" + ffn, "precision.frozen=" + frozen,
            "parallel.tensor=" + std::move(tensor)};
        return plan_of(settings, {4, false, true}).int8_warning;
    };
    CHECK(warning("4", "512", "1").empty());
    CHECK(warning("4", "512", "2", "compute").empty());
    CHECK(holds(warning("4", "512", "2"), "model.num_attention_heads x head_dim 192 / "));
    CHECK_FALSE(holds(warning("4", "512", "2"), "ffn_hidden_size"));
    CHECK(holds(warning("4", "320", "2"),
                "head_dim 192 and model.ffn_hidden_size 320 / "
                "parallel.tensor 2 is not a multiple of 64"));
    const std::string experts =
        "model.experts={count: 4, per_token: 2, ffn_hidden_size: 96, "
        "shared: {ffn_hidden_size: 64}, layers: ";
    const auto with_experts = [&](const std::string& layers) {
        return plan_of({"model.hidden_size=512", "model.ffn_hidden_size=320", "parallel.tensor=2",
                        "precision.frozen=int8", experts + layers + "}"},
                       {2, false, true})
            .int8_warning;
    };
    CHECK(holds(with_experts("all"),
                "int8: model.experts.ffn_hidden_size 96 and model.experts.shared.ffn_hidden_size "
                "64 / "));
    CHECK(holds(with_experts("[0]"), "model.ffn_hidden_size 320 and model.experts.ffn_hidden"));
    // Ranks that divide the experts have their rows whole.
    CHECK(holds(
        plan_of({"model.hidden_size=512", "parallel.tensor=2", "parallel.expert=2",
                 "parallel.sequence_parallel=true", "precision.frozen=int8", experts + "all}"},
                {2, false, true})
            .int8_warning,
        "int8: model.experts.shared.ffn_hidden_size 64 / "));
}

}  // namespace gptrain::test
