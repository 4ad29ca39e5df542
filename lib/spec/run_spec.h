// The run spec that a user writes in YAML: one field per key, with the key's default. A value that
// the spec may leave open ("auto", "none", an absent key whose default depends on others) is an
// empty optional here; `RunPlan` fills it in.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/experts_spec.h"
#include "spec/faults_spec.h"
#include "spec/spec_words.h"

namespace gptrain {

/// Everything about a model except its sizes. The plan takes it over unchanged, but for the widths
/// of experts in a rank's part.
struct ModelVariant {
    PositionEmbedding position_embedding = PositionEmbedding::learned;
    double rope_theta = 10000.0;
    /// The base in layers with a window, which rope_scaling then leaves alone; empty: rope_theta.
    std::optional<double> window_rope_theta;
    std::optional<RopeScaling> rope_scaling;
    double rotary_fraction = 1;  ///< share of a head's dims, its first ones, that are rotated
    std::vector<std::int64_t> unrotated_layers;  ///< counted from 0
    /// Keys that a token sees at most, itself included; empty: all earlier ones.
    std::optional<std::int64_t> sliding_window;
    /// Layers, counted from 0, that use full attention in spite of sliding_window.
    std::vector<std::int64_t> full_attention_layers;
    QkNorm qk_norm = QkNorm::none;
    /// c: a score s becomes c tanh(s / c).
    std::optional<double> attention_softcap;
    bool attention_sinks = false;              ///< a trained score of each head, without a value
    std::optional<double> logit_softcap = {};  ///< the same of the head's logits
    NormPlacement norm_placement = NormPlacement::before;
    ParallelResidual parallel_residual = ParallelResidual::none;
    Normalization normalization = Normalization::layernorm;
    double norm_eps = 1.0e-5;
    Activation activation = Activation::gelu;
    std::optional<ExpertsSpec> experts;
    bool bias = true;
    bool head_bias = false;
    double embedding_scale = 1;   ///< factor of the token embedding where it enters the model
    bool embedding_norm = false;  ///< a norm of the embeddings where they enter the first block
    bool tie_embeddings = true;
    double dropout = 0.0;
    double init_std = 0.02;

    bool has_experts(std::int64_t layer) const { return experts && experts->layers.has(layer); }
    /// How many of the first `layers` layers have experts.
    std::int64_t expert_layers(std::int64_t layers) const;
    bool operator==(const ModelVariant&) const = default;
};

/// The base of rotations, or one for each kind of layer.
struct RopeThetas {
    double full = 10000.0;
    std::optional<double> window;

    bool operator==(const RopeThetas&) const = default;
};

/// The model's keys as the user gives them.
struct ModelSpec : ModelVariant {
    std::int64_t num_layers = 0;
    std::int64_t hidden_size = 0;
    std::int64_t num_attention_heads = 0;
    std::optional<std::int64_t> num_query_groups;
    std::optional<std::int64_t> head_dim;
    std::optional<std::int64_t> ffn_hidden_size;
    std::int64_t vocab_size = 0;
    std::optional<std::int64_t> max_position_embeddings;
    // Empty: as `bias`.
    std::optional<bool> qkv_bias;
    std::optional<bool> attention_bias;  ///< of attn.proj
    std::optional<bool> norm_bias;       ///< of every layernorm

    bool operator==(const ModelSpec&) const = default;
};

/// Predicting the next token. It has no keys.
struct CausalSpec {
    bool operator==(const CausalSpec&) const = default;
};

/// Masked language modelling in place of predicting the next token (data/token_masking.h).
struct MlmSpec {
    static constexpr ObjectiveKind kind = ObjectiveKind::mlm;
    double mask_rate = 0.15;  ///< share of the tokens that are chosen
    Masking masking = Masking::token;
    std::optional<std::int64_t> mask_id;  ///< of the mask token; empty: the tokenizer's
    double mask_share = 0.8;              ///< of the chosen tokens: become the mask token
    double random_share = 0.1;            ///< become any token; the rest stays
    double geometric_p = 0.2;             ///< with spans: of the distribution of their lengths
    std::int64_t max_span = 10;           ///< with spans: tokens of the longest one

    bool operator==(const MlmSpec&) const = default;
};

/// The loss that a run lowers, and the tokens that the model sees and has to find.
using Objective = std::variant<CausalSpec, MlmSpec>;

/// The adapter that is trained in place of the model's parameters. Keys that its kind does not use
/// keep their defaults.
struct AdapterSpec {
    AdapterKind kind = AdapterKind::lora;
    // lora
    std::int64_t rank = 8;
    double alpha = 16;  ///< the update is multiplied by alpha / rank
    double dropout = 0;
    std::vector<LinearName> targets = {LinearName::attn_q, LinearName::attn_v};
    // prompt and p_tuning
    std::int64_t virtual_tokens = 20;
    PromptInit init = PromptInit::random;  ///< of prompt
    /// Used by p_tuning; empty: the hidden size.
    std::optional<std::int64_t> encoder_hidden_size = {};

    bool operator==(const AdapterSpec&) const = default;
};

struct DataSource {
    std::filesystem::path prefix;  ///< PREFIX.bin and PREFIX.idx
    double weight = 1.0;

    bool operator==(const DataSource&) const = default;
};

struct DataSpec {
    std::vector<DataSource> train;  ///< empty in the spec of an imported model
    std::vector<DataSource> validation;
    std::string split = "969,30,1";
    std::optional<std::filesystem::path> tokenizer;
    std::optional<std::int64_t> num_samples;
    OnChange on_change = OnChange::refuse;  ///< training data other than the checkpoint's
    std::optional<std::int64_t> eod_id;
    bool eod_mask_loss = false;
    std::optional<bool> reset_at_eod;  ///< empty: true for conversations

    bool operator==(const DataSpec&) const = default;
};

struct RampupSpec {
    std::int64_t start = 16;
    std::int64_t increment = 16;
    std::int64_t samples = 0;  ///< 0: no ramp-up of the batch size

    bool operator==(const RampupSpec&) const = default;
};

struct TrainingSpec {
    std::int64_t seq_length = 1024;
    std::int64_t micro_batch_size = 1;
    std::optional<std::int64_t> global_batch_size;
    RampupSpec rampup;
    std::int64_t steps = 0;
    std::int64_t eval_interval = 100;
    std::int64_t eval_steps = 10;
    std::vector<std::string> frozen;  ///< patterns of names (ParameterRules)

    bool operator==(const TrainingSpec&) const = default;
};

/// A built-in task by its name, or the path of a task file.
struct TaskName {
    std::string text;

    bool operator==(const TaskName&) const = default;
};

/// The tasks that measure the model during training.
struct EvalTasksSpec {
    std::vector<TaskName> tasks;
    std::int64_t interval = 0;                  ///< in steps
    std::optional<std::filesystem::path> data;  ///< folder of the data files; empty: each task's
    std::optional<std::int64_t> limit;          ///< documents of each task
    std::optional<std::int64_t> few_shot;       ///< empty: the task's

    bool operator==(const EvalTasksSpec&) const = default;
};

struct ParallelSpec {
    std::int64_t tensor = 1;
    bool sequence_parallel = false;
    OverlapTensor overlap_tensor = OverlapTensor::automatic;
    PeerMessages peer = PeerMessages::off;
    std::int64_t pipeline = 1;
    std::int64_t virtual_stages = 1;
    std::optional<std::vector<std::int64_t>> layers;
    std::int64_t context = 1;
    ContextMethod context_method = ContextMethod::ring;
    std::optional<std::int64_t> data;
    std::int64_t expert = 1;
    ScheduleKind schedule = ScheduleKind::one_f_one_b;
    Sharded shard = Sharded::optimizer;
    std::optional<std::int64_t> shard_ranks = {};  ///< in a group that divides it; empty: all
    bool reshard = true;  ///< weights are released after forward and gathered again for backward

    bool operator==(const ParallelSpec&) const = default;
};

/// Of this recipe, unless the spec says otherwise: bf16 or fp8.
constexpr Precision usual_weight_gradients(Fp8Recipe recipe) {
    return recipe == Fp8Recipe::block ? Precision::bf16 : Precision::fp8;
}

struct PrecisionSpec {
    std::optional<Precision> compute;
    Precision grad_reduce = Precision::fp32;   ///< fp32 or bf16
    std::optional<Fp8Recipe> fp8_recipe = {};  ///< empty: that of the checkpoint, or tensor
    /// bf16 or fp8; empty: that of a checkpoint of the same recipe, or the recipe's usual one.
    std::optional<Precision> fp8_weight_gradients = {};
    FrozenWeights frozen = FrozenWeights::compute;
    bool nf4_double = false;                   ///< the scales of nf4 are quantised too
    Precision main_weights = Precision::fp32;  ///< fp32 or bf16

    bool operator==(const PrecisionSpec&) const = default;
};

struct MuonSpec {
    double momentum = 0.95;
    bool nesterov = true;
    MuonScale scale = MuonScale::match_rms;
    double lr_scale = 1.0;

    bool operator==(const MuonSpec&) const = default;
};

struct OptimizerSpec {
    std::string name = "adamw";
    double lr = 6.0e-4;
    std::array<double, 2> betas = {0.9, 0.95};
    double eps = 1.0e-8;
    double weight_decay = 0.1;
    double clip_grad = 1.0;  ///< 0: no clipping
    MomentFormat state = MomentFormat::fp32;
    MuonSpec muon;

    bool operator==(const OptimizerSpec&) const = default;
};

/// State that waits in host memory while the device does not need it.
struct OffloadSpec {
    bool optimizer = false;     ///< the optimizer's moments
    bool main_weights = false;  ///< the optimizer's main parameters
    OffloadedActivations activations = OffloadedActivations::off;

    bool operator==(const OffloadSpec&) const = default;
};

struct LrScheduleSpec {
    LrKind kind = LrKind::cosine;
    std::int64_t warmup_steps = 0;
    std::optional<std::int64_t> decay_steps;
    double min_lr = 0.0;
    std::int64_t wsd_decay_steps = 0;

    bool operator==(const LrScheduleSpec&) const = default;
};

struct CheckpointSpec {
    std::int64_t interval = 500;  ///< 0: only after the last step
    std::int64_t keep_last = 3;   ///< at least 2
    std::int64_t keep_every = 0;  ///< also keep steps that are multiples of this; 0: none
    bool async = true;
    std::optional<std::filesystem::path> local = {};  ///< a folder on each node's own disk
    std::int64_t local_interval = 50;  ///< steps between the copies that are kept there
    std::optional<std::filesystem::path> memory = {};  ///< a folder in each node's memory
    std::int64_t memory_interval = 10;  ///< steps between the copies that are kept there

    bool operator==(const CheckpointSpec&) const = default;
};

struct LoggingSpec {
    std::int64_t interval = 10;
    bool tensorboard = true;
    std::optional<std::filesystem::path> prometheus = {};  ///< a file named *.prom

    bool operator==(const LoggingSpec&) const = default;
};

/// The location and text of a spec's keys, for messages. Ignored when specs are compared.
struct SpecLocations {
    std::string file;
    std::map<std::string, std::string, std::less<>> by_key;  ///< "training.steps": "run.yaml:8:3"
    std::map<std::string, std::string, std::less<>> values;  ///< "data.tokenizer": "tok.model"

    /// The location of the key that starts a message, else of its section, else the file; or empty.
    std::string of(std::string_view message) const;
    bool operator==(const SpecLocations&) const { return true; }
};

struct RunSpec {
    std::string name;
    std::uint64_t seed = 1234;
    std::optional<std::filesystem::path> init_from;  ///< the weights of step 0
    DeviceChoice device = DeviceChoice::automatic;
    std::filesystem::path output_dir;
    ModelSpec model;
    Objective objective;
    std::optional<AdapterSpec> adapter;
    DataSpec data;
    TrainingSpec training;
    std::optional<EvalTasksSpec> eval_tasks;
    ParallelSpec parallel;
    PrecisionSpec precision;
    Recompute recompute = Recompute::selective;
    bool deterministic = true;
    OptimizerSpec optimizer;
    OffloadSpec offload;
    LrScheduleSpec lr_schedule;
    CheckpointSpec checkpoint;
    FaultsSpec faults;
    LoggingSpec logging;
    std::optional<FaultInjectionSpec> fault_injection;
    SpecLocations locations;

    bool operator==(const RunSpec&) const = default;
};

/// Reads a run spec from a file and applies `key.path=value` settings in order. Relative paths
/// become absolute. Every mistake is an Error (usage) of the form `file:line:column: key: what is
/// wrong`, with the nearest valid key for an unknown one; one in a setting names the setting.
RunSpec load_run_spec(const std::filesystem::path& file,
                      const std::vector<std::string>& settings = {});

/// The same from text. `source` replaces the file's name in messages.
RunSpec parse_run_spec(std::string_view yaml, std::string_view source,
                       const std::vector<std::string>& settings = {});

/// Reads the faults that tests inject from a file with the keys of `fault_injection`, which the
/// spec must not have then. Mistakes are Errors (usage) like those in a spec.
void load_faults(const std::filesystem::path& file, RunSpec& spec);

/// The spec as YAML with every key present. `parse_run_spec` of it returns the same spec.
std::string to_yaml(const RunSpec& spec);

}  // namespace gptrain
