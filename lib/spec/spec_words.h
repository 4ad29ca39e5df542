// The enumerations of a run spec, each with the words for its values, for reading and writing.
#pragma once

#include <array>
#include <string_view>

#include "base/activation.h"
#include "base/rope.h"
#include "base/words.h"

namespace gptrain {

enum class DeviceChoice { automatic, cpu, cuda };
constexpr auto words_of(DeviceChoice) {
    using enum DeviceChoice;
    return std::to_array<Word<DeviceChoice>>({{automatic, "auto"}, {cpu, "cpu"}, {cuda, "cuda"}});
}

enum class PositionEmbedding { learned, rope, alibi };
constexpr auto words_of(PositionEmbedding) {
    using enum PositionEmbedding;
    return std::to_array<Word<PositionEmbedding>>(
        {{learned, "learned"}, {rope, "rope"}, {alibi, "alibi"}});
}

constexpr auto words_of(RopeScalingKind) {
    using enum RopeScalingKind;
    return std::to_array<Word<RopeScalingKind>>(
        {{linear, "linear"}, {llama3, "llama3"}, {yarn, "yarn"}});
}

enum class OnChange { refuse, go_on };
constexpr auto words_of(OnChange) {
    using enum OnChange;
    return std::to_array<Word<OnChange>>({{refuse, "refuse"}, {go_on, "continue"}});
}

enum class Normalization { layernorm, rmsnorm };
constexpr auto words_of(Normalization) {
    using enum Normalization;
    return std::to_array<Word<Normalization>>({{layernorm, "layernorm"}, {rmsnorm, "rmsnorm"}});
}

/// RMSNorms of q and k, before the rotation: of each head, or of all heads of a token as one row.
enum class QkNorm { none, head, all };
constexpr auto words_of(QkNorm) {
    using enum QkNorm;
    return std::to_array<Word<QkNorm>>({{none, "none"}, {head, "head"}, {all, "all"}});
}
/// Words that are read, but not written.
constexpr auto other_words_of(QkNorm) {
    using enum QkNorm;
    return std::to_array<Word<QkNorm>>({{none, "false"}, {head, "true"}});
}

/// Where the halves of a block normalise: their inputs, their outputs, or both.
enum class NormPlacement { before, after, both };
constexpr auto words_of(NormPlacement) {
    using enum NormPlacement;
    return std::to_array<Word<NormPlacement>>(
        {{before, "before"}, {after, "after"}, {both, "both"}});
}

/// Whether both halves of a block read the stream that enters it, and through how many norms.
enum class ParallelResidual { none, two_norms, one_norm };
constexpr auto words_of(ParallelResidual) {
    using enum ParallelResidual;
    return std::to_array<Word<ParallelResidual>>(
        {{none, "none"}, {two_norms, "two_norms"}, {one_norm, "one_norm"}});
}
constexpr auto other_words_of(ParallelResidual) {
    using enum ParallelResidual;
    return std::to_array<Word<ParallelResidual>>({{none, "false"}, {two_norms, "true"}});
}

constexpr auto words_of(Activation) {
    using enum Activation;
    return std::to_array<Word<Activation>>({{gelu, "gelu"},
                                            {gelu_erf, "gelu_erf"},
                                            {swiglu, "swiglu"},
                                            {clamped_swiglu, "clamped_swiglu"},
                                            {geglu, "geglu"},
                                            {relu, "relu"},
                                            {relu2, "relu2"}});
}

enum class ObjectiveKind { mlm };
constexpr auto words_of(ObjectiveKind) {
    return std::to_array<Word<ObjectiveKind>>({{ObjectiveKind::mlm, "mlm"}});
}

/// The units that masked language modelling chooses: single tokens, or spans of them.
enum class Masking { token, span };
constexpr auto words_of(Masking) {
    using enum Masking;
    return std::to_array<Word<Masking>>({{token, "token"}, {span, "span"}});
}

enum class AdapterKind { lora, prompt, p_tuning };
constexpr auto words_of(AdapterKind) {
    using enum AdapterKind;
    return std::to_array<Word<AdapterKind>>(
        {{lora, "lora"}, {prompt, "prompt"}, {p_tuning, "p_tuning"}});
}

/// The initial values of virtual tokens: drawn, or those of tokens of the vocabulary.
enum class PromptInit { random, vocabulary };
constexpr auto words_of(PromptInit) {
    using enum PromptInit;
    return std::to_array<Word<PromptInit>>({{random, "random"}, {vocabulary, "vocabulary"}});
}

/// The linear layers of a block.
enum class LinearName { attn_q, attn_k, attn_v, attn_proj, mlp_fc, mlp_gate, mlp_proj };
constexpr auto words_of(LinearName) {
    using enum LinearName;
    return std::to_array<Word<LinearName>>({{attn_q, "attn.q"},
                                            {attn_k, "attn.k"},
                                            {attn_v, "attn.v"},
                                            {attn_proj, "attn.proj"},
                                            {mlp_fc, "mlp.fc"},
                                            {mlp_gate, "mlp.gate"},
                                            {mlp_proj, "mlp.proj"}});
}

enum class ContextMethod { ring, all_to_all };
constexpr auto words_of(ContextMethod) {
    using enum ContextMethod;
    return std::to_array<Word<ContextMethod>>({{ring, "ring"}, {all_to_all, "all_to_all"}});
}

enum class OverlapTensor { off, on, automatic };
constexpr auto words_of(OverlapTensor) {
    using enum OverlapTensor;
    return std::to_array<Word<OverlapTensor>>({{off, "off"}, {on, "on"}, {automatic, "auto"}});
}

/// The scale of Muon's updates.
/// How messages travel between GPUs of a node.
enum class PeerMessages { off, automatic };
constexpr auto words_of(PeerMessages) {
    using enum PeerMessages;
    return std::to_array<Word<PeerMessages>>({{off, "off"}, {automatic, "auto"}});
}

enum class MuonScale { match_rms, original };
constexpr auto words_of(MuonScale) {
    using enum MuonScale;
    return std::to_array<Word<MuonScale>>({{match_rms, "match_rms"}, {original, "original"}});
}

enum class ScheduleKind { gpipe, one_f_one_b, interleaved_one_f_one_b, zero_bubble };
constexpr auto words_of(ScheduleKind) {
    using enum ScheduleKind;
    return std::to_array<Word<ScheduleKind>>({{gpipe, "gpipe"},
                                              {one_f_one_b, "1f1b"},
                                              {interleaved_one_f_one_b, "interleaved_1f1b"},
                                              {zero_bubble, "zero_bubble"}});
}

enum class Precision { fp32, bf16, fp16, fp8 };
constexpr auto words_of(Precision) {
    using enum Precision;
    return std::to_array<Word<Precision>>(
        {{fp32, "fp32"}, {bf16, "bf16"}, {fp16, "fp16"}, {fp8, "fp8"}});
}

/// The values that share a scale in FP8: those of a tensor, or of a block of it.
enum class Fp8Recipe { tensor, block };
constexpr auto words_of(Fp8Recipe) {
    using enum Fp8Recipe;
    return std::to_array<Word<Fp8Recipe>>({{tensor, "tensor"}, {block, "block"}});
}

/// The format in which weights that are not trained are kept.
enum class FrozenWeights { compute, int8, nf4 };
constexpr auto words_of(FrozenWeights) {
    using enum FrozenWeights;
    return std::to_array<Word<FrozenWeights>>({{compute, "compute"}, {int8, "int8"}, {nf4, "nf4"}});
}

/// The state that ranks with the same parameters divide among them; each value includes those
/// before it.
enum class Sharded { none, optimizer, gradients, weights };
constexpr auto words_of(Sharded) {
    using enum Sharded;
    return std::to_array<Word<Sharded>>(
        {{none, "none"}, {optimizer, "optimizer"}, {gradients, "gradients"}, {weights, "weights"}});
}

/// The format of AdamW's moments.
enum class MomentFormat { fp32, bf16, eight_bit };
constexpr auto words_of(MomentFormat) {
    using enum MomentFormat;
    return std::to_array<Word<MomentFormat>>({{fp32, "fp32"}, {bf16, "bf16"}, {eight_bit, "8bit"}});
}

/// Which saved activations wait for backward in host memory.
enum class OffloadedActivations { off, blocks };
constexpr auto words_of(OffloadedActivations) {
    using enum OffloadedActivations;
    return std::to_array<Word<OffloadedActivations>>({{off, "off"}, {blocks, "blocks"}});
}

enum class Recompute { none, selective, full };
constexpr auto words_of(Recompute) {
    using enum Recompute;
    return std::to_array<Word<Recompute>>(
        {{none, "none"}, {selective, "selective"}, {full, "full"}});
}

enum class LrKind { constant, linear, cosine, wsd, inverse_sqrt };
constexpr auto words_of(LrKind) {
    using enum LrKind;
    return std::to_array<Word<LrKind>>({{constant, "constant"},
                                        {linear, "linear"},
                                        {cosine, "cosine"},
                                        {wsd, "wsd"},
                                        {inverse_sqrt, "inverse_sqrt"}});
}

/// Another program's name for a word of the spec.
struct Synonym {
    std::string_view foreign;
    std::string_view word;
};
constexpr std::array<Synonym, 5> synonyms = {{{"gpu", "cuda"},
                                              {"float32", "fp32"},
                                              {"bfloat16", "bf16"},
                                              {"float16", "fp16"},
                                              {"half", "fp16"}}};

}  // namespace gptrain
