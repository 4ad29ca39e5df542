#include "mesh_cases.h"

#include <iterator>
#include <set>

#include "tiny_run.h"

namespace gptrain::test {
namespace {

/// 15 microbatches, which no number of data ranks divides.
RunSpec base(RunSpec spec) {
    spec.model.num_layers = 4;
    spec.model.hidden_size = 32;
    spec.model.num_attention_heads = 8;
    spec.model.ffn_hidden_size = 64;
    spec.model.vocab_size = 101;  // has no small divisor
    spec.model.dropout = 0.1;
    spec.training.seq_length = 16;
    spec.training.micro_batch_size = 2;
    spec.training.global_batch_size = 30;
    // With a smaller eps, gradients that are zero except for rounding (of the key bias) would
    // become full updates, and nothing could be compared.
    spec.optimizer.eps = 1e-2;
    return spec;
}

/// Enough layers for many stages, and 19 microbatches, which neither stages nor data ranks divide.
RunSpec deep(RunSpec spec) {
    spec.model.num_layers = 16;
    spec.model.hidden_size = 16;
    spec.model.ffn_hidden_size = 32;
    spec.training.global_batch_size = 38;
    return spec;
}

std::string text_of(const MeshCase& mesh_case) {
    const ParallelSpec& p = mesh_case.parallel;
    std::string name = text(mesh_case.model, ": dp ", p.data.value_or(1), " pp ", p.pipeline,
                            " cp ", p.context, " tp ", p.tensor, ", ", name_of(p.schedule));
    if (p.context > 1) name += text(", ", name_of(p.context_method));
    if (p.virtual_stages > 1) name += text(" of ", p.virtual_stages, " chunks");
    if (p.sequence_parallel) name += ", sequence_parallel";
    if (p.overlap_tensor == OverlapTensor::on)
        name += text(", overlap_tensor on, micro batch ", mesh_case.micro_batch_size);
    if (p.peer == PeerMessages::automatic) name += ", pieces by rank";
    if (p.shard != Sharded::optimizer) name += text(", shard ", name_of(p.shard));
    if (p.shard_ranks) name += text(" among ", *p.shard_ranks);
    if (!p.reshard) name += " kept";
    if (p.expert > 1) name += text(", experts ", p.expert, ", load ", mesh_case.load);
    if (mesh_case.messages_in_order) name += ", messages in order";
    return text(name, ", recompute ", name_of(mesh_case.recompute));
}

/// Cycles through the models and recompute modes, one per case.
class CaseList {
public:
    void add(const ParallelSpec& parallel, const char* shallow_model = nullptr,
             const char* deep_model = nullptr, std::int64_t micro_batch_size = 2, double load = 8) {
        constexpr Recompute modes[] = {Recompute::none, Recompute::selective, Recompute::full};
        constexpr const char* shallow_models[] = {"gpt",       "llama",   "mixed",          "qwen",
                                                  "starcoder", "experts", "shared experts", "olmo",
                                                  "gemma",     "falcon"};
        constexpr const char* deep_models[] = {"deep gpt", "deep llama"};
        MeshCase next;
        next.parallel = parallel;
        const bool shallow = parallel.pipeline * parallel.virtual_stages <= 4;
        next.model =
            shallow ? shallow_models[turn_ % std::size(shallow_models)] : deep_models[turn_ % 2];
        if (shallow_model != nullptr) next.model = shallow ? shallow_model : deep_model;
        next.recompute = modes[turn_ / 4 % 3];
        next.messages_in_order = turn_ / 2 % 2 == 1;
        next.micro_batch_size = micro_batch_size;
        next.load = load;
        next.name = text_of(next);
        cases_.push_back(next);
        ++turn_;
    }
    /// All schedules of a mesh.
    void add_schedules(ParallelSpec parallel) {
        for (const ScheduleKind kind :
             {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zero_bubble}) {
            parallel.schedule = kind;
            add(parallel);
        }
        if (parallel.pipeline == 1) return;
        parallel.virtual_stages = 2;
        add(parallel);
        parallel.schedule = ScheduleKind::interleaved_one_f_one_b;
        add(parallel);
        if (parallel.pipeline > 4) return;
        parallel.virtual_stages = 3;
        add(parallel);
    }
    /// Linear layers in pieces of one sequence's rows, of whole sequences, and of ranks' slices.
    void add_overlap(ParallelSpec parallel) {
        parallel.overlap_tensor = OverlapTensor::on;
        for (const std::int64_t micro_batch_size : {1, 2}) {
            const bool defers = micro_batch_size == 1 || parallel.pipeline > 1;
            parallel.schedule = defers ? ScheduleKind::zero_bubble : ScheduleKind::one_f_one_b;
            add(parallel, nullptr, nullptr, micro_batch_size);
        }
        parallel.peer = PeerMessages::automatic;
        add(parallel, nullptr, nullptr, 1);
        parallel.peer = PeerMessages::off;
        if (parallel.data == 1) return;
        parallel.context = *parallel.data;
        parallel.data = 1;
        parallel.schedule = ScheduleKind::one_f_one_b;
        add(parallel, nullptr, nullptr, 1);
    }
    /// With some or all of a mesh's data ranks as cp ranks.
    void add_contexts(ParallelSpec parallel) {
        const std::int64_t ranks = parallel.data.value_or(1);
        for (std::int64_t context = 2; context <= ranks; context *= 2) {
            parallel.context = context;
            parallel.data = ranks / context;
            parallel.context_method = ContextMethod::ring;
            add_context(parallel);
            // Each cp rank needs a share of the query groups.
            parallel.context_method = ContextMethod::all_to_all;
            if (parallel.tensor * context > 4) continue;
            add_context(parallel, contexts_ % 2 == 0 ? "gpt" : "qwen", "deep gpt");
        }
    }
    /// The state that ranks with the same parameters divide among them, in groups if there are
    /// enough, with the schedules that allow it.
    void add_shards(ParallelSpec parallel) {
        const ScheduleKind usual = parallel.schedule;
        parallel.shard = Sharded::none;
        add(parallel);
        for (const Sharded shard : {Sharded::gradients, Sharded::weights}) {
            parallel.shard = shard;
            parallel.schedule = shards_++ % 2 == 0 ? usual : ScheduleKind::gpipe;
            add(parallel);
        }
        if (parallel.pipeline > 1) {
            parallel.schedule = ScheduleKind::interleaved_one_f_one_b;
            parallel.virtual_stages = 2;
            add(parallel);
            parallel.virtual_stages = 1;
        }
        parallel.schedule = usual;
        parallel.reshard = false;
        if (parallel.data == 2) return;
        parallel.shard_ranks = 2;
        add(parallel);
        parallel.shard = Sharded::optimizer;
        parallel.reshard = true;
        add(parallel);
    }
    /// Experts divided among ranks with different tokens: as few as there can be, or all of them.
    /// Alternates between messages that are long enough and those that are not, and cycles through
    /// schedules.
    void add_experts(ParallelSpec parallel) {
        constexpr ScheduleKind kinds[] = {ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble};
        const std::int64_t all = *parallel.data * parallel.context * parallel.tensor;
        const bool few = experts_ / 2 % 2 == 0;
        parallel.expert = few ? std::max<std::int64_t>(2, parallel.tensor) : all;
        parallel.schedule = kinds[experts_ / 2 % 2];
        constexpr Sharded shards[] = {Sharded::optimizer, Sharded::weights, Sharded::none};
        parallel.shard = shards[experts_ % 3];
        if (parallel.shard == Sharded::weights) parallel.schedule = ScheduleKind::one_f_one_b;
        // One of them has 6 experts, the other 8.
        const bool of_eight = parallel.expert > 2 || experts_ % 4 == 1;
        add(parallel, of_eight ? "shared experts" : "experts", nullptr, 2,
            experts_ % 2 == 0 ? 1 : 8);
        ++experts_;
    }
    std::vector<MeshCase> all() const { return cases_; }

private:
    /// Cycles through the schedules and alternates the other choices.
    void add_context(ParallelSpec parallel, const char* shallow_model = nullptr,
                     const char* deep_model = nullptr) {
        constexpr ScheduleKind kinds[] = {ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble,
                                          ScheduleKind::gpipe,
                                          ScheduleKind::interleaved_one_f_one_b};
        parallel.schedule = kinds[contexts_ % (parallel.pipeline > 1 ? 4 : 3)];
        if (parallel.schedule == ScheduleKind::interleaved_one_f_one_b) parallel.virtual_stages = 2;
        parallel.sequence_parallel = parallel.tensor > 1 && contexts_ / 2 % 2 == 0;
        constexpr Sharded shards[] = {Sharded::optimizer, Sharded::weights, Sharded::optimizer,
                                      Sharded::gradients, Sharded::none};
        parallel.shard = shards[contexts_ % 5];
        const bool divides = parallel.shard >= Sharded::gradients;
        if (divides && parallel.schedule == ScheduleKind::zero_bubble)
            parallel.schedule = ScheduleKind::one_f_one_b;
        add(parallel, shallow_model, deep_model);
        ++contexts_;
    }

    std::vector<MeshCase> cases_;
    std::size_t turn_ = 0;
    std::size_t contexts_ = 0;
    std::size_t experts_ = 0;
    std::size_t shards_ = 0;
};

/// The axes that have several ranks.
std::vector<std::string> used_axes(const ParallelSpec& p) {
    std::vector<std::string> used;
    if (p.data.value_or(1) > 1) used.emplace_back("dp");
    if (p.pipeline > 1) used.emplace_back("pp");
    if (p.context > 1) used.emplace_back("cp");
    if (p.tensor > 1) used.emplace_back("tp");
    return used;
}

/// The features that a case covers, in words.
std::set<std::string> shown_by(const MeshCase& mesh_case) {
    const ParallelSpec& p = mesh_case.parallel;
    std::set<std::string> shown = {mesh_case.model,
                                   text("recompute ", name_of(mesh_case.recompute)),
                                   text(name_of(p.schedule), " of ", p.virtual_stages)};
    const std::vector<std::string> used = used_axes(p);
    for (const std::string& axis : used) {
        for (const std::string& other : used)
            shown.insert(text(axis, " and ", other));
        if (p.expert > 1) shown.insert(text("experts on ", axis));
    }
    if (p.expert > 1) shown.insert(text("load ", mesh_case.load));
    if (p.context > 1) shown.emplace(name_of(p.context_method));
    if (p.sequence_parallel) shown.insert("sequence_parallel");
    if (p.overlap_tensor == OverlapTensor::on)
        shown.insert(text("pieces of ", mesh_case.micro_batch_size));
    if (p.peer == PeerMessages::automatic) shown.insert("pieces by rank");
    shown.insert(text("shard ", name_of(p.shard), p.shard_ranks ? " in groups" : ""));
    return shown;
}

}  // namespace

bool has_three_axes(const MeshCase& mesh_case) {
    return used_axes(mesh_case.parallel).size() >= 3;
}

std::vector<MeshCase> covering(const std::vector<MeshCase>& cases) {
    std::set<std::string> seen;
    std::vector<MeshCase> chosen;
    for (const MeshCase& mesh_case : cases) {
        const std::size_t before = seen.size();
        seen.merge(shown_by(mesh_case));
        if (seen.size() > before) chosen.push_back(mesh_case);
    }
    return chosen;
}

std::vector<MeshCase> dividing_more(std::vector<MeshCase> cases) {
    std::size_t turn = 0;
    for (MeshCase& mesh_case : cases) {
        ParallelSpec& p = mesh_case.parallel;
        const std::int64_t copies = p.data.value_or(1) * p.context;
        const bool alone = copies == 1 || p.shard != Sharded::optimizer || p.shard_ranks;
        if (alone || p.schedule == ScheduleKind::zero_bubble) continue;
        p.shard = turn++ % 2 == 0 ? Sharded::weights : Sharded::gradients;
        if (p.context > 1 && p.context < copies) p.shard_ranks = p.context;
        mesh_case.name = text_of(mesh_case);
    }
    return cases;
}

std::vector<Model> models() {
    RunSpec gpt = base(tiny_spec());
    RunSpec llama = base(tiny_llama_spec());
    llama.model.num_query_groups = 4;
    llama.model.num_layers = 5;
    RunSpec mixed = base(tiny_llama_spec());
    mixed.model.num_query_groups = 1;
    mixed.model.bias = true;
    mixed.model.tie_embeddings = true;
    mixed.model.position_embedding = PositionEmbedding::alibi;
    mixed.model.logit_softcap = 3;
    RunSpec qwen = base(tiny_qwen_spec());
    qwen.model.num_query_groups = 4;
    qwen.model.rotary_fraction = 0.5;
    qwen.model.unrotated_layers = {2};
    qwen.model.window_rope_theta = 100;
    qwen.model.attention_softcap = 2;
    qwen.model.attention_sinks = true;
    RunSpec starcoder = base(tiny_spec());
    starcoder.model.position_embedding = PositionEmbedding::rope;
    starcoder.model.activation = Activation::gelu_erf;
    starcoder.model.rope_scaling = {
        .kind = RopeScalingKind::llama3, .factor = 4, .original_max_position_embeddings = 8};
    RunSpec linear = llama;
    linear.model.rope_scaling = {.kind = RopeScalingKind::linear, .factor = 2};
    RunSpec experts = base(tiny_experts_spec());
    experts.model.num_query_groups = 4;
    experts.model.experts->balance.aux_weight = 0;
    RunSpec shared_experts = base(tiny_shared_experts_spec());
    shared_experts.model.num_query_groups = 4;
    RunSpec olmo = base(tiny_olmo_spec());
    olmo.model.num_query_groups = 1;  // ranks of tp share the norm of k
    RunSpec gemma = base(tiny_gemma_spec());
    gemma.model.num_query_groups = 4;
    return {{"gpt", gpt},
            {"llama", llama},
            {"mixed", mixed},
            {"qwen", qwen},
            {"starcoder", starcoder},
            {"experts", experts},
            {"shared experts", shared_experts},
            {"olmo", olmo},
            {"gemma", gemma},
            {"falcon", base(tiny_falcon_spec())},
            {"deep gpt", deep(gpt)},
            {"deep llama", deep(linear)}};
}

std::vector<MeshCase> mesh_cases(std::int64_t ranks) {
    CaseList cases;
    for (std::int64_t tensor = 1; tensor <= ranks; tensor *= 2) {
        for (std::int64_t pipeline = 1; pipeline * tensor <= ranks; pipeline *= 2) {
            ParallelSpec parallel;
            parallel.data = ranks / (tensor * pipeline);
            parallel.pipeline = pipeline;
            parallel.tensor = tensor;
            cases.add_schedules(parallel);
            if (tensor > 1) {
                parallel.sequence_parallel = true;
                cases.add_schedules(parallel);
                cases.add_overlap(parallel);
            }
            parallel.sequence_parallel = false;
            cases.add_contexts(parallel);
            if (parallel.data != 1) cases.add_shards(parallel);
        }
    }
    // Ranks with different tokens: of tp with sequence parallelism, of cp, of dp.
    for (std::int64_t pipeline = 1; 2 * pipeline <= ranks; pipeline *= 2) {
        ParallelSpec parallel;
        parallel.pipeline = pipeline;
        const std::int64_t others = ranks / pipeline;
        for (std::int64_t tensor = 1; tensor <= std::min<std::int64_t>(others, 2); tensor *= 2) {
            parallel.tensor = tensor;
            parallel.sequence_parallel = tensor > 1;
            parallel.context = pipeline == 1 && others / tensor >= 2 ? 2 : 1;
            parallel.data = others / (tensor * parallel.context);
            cases.add_experts(parallel);
        }
    }
    ParallelSpec data;
    data.data = ranks;
    cases.add_experts(data);
    return cases.all();
}

}  // namespace gptrain::test
