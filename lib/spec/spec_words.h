// The names of enumeration values in a run spec, each spelled once.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include "spec/run_spec.h"

namespace gptrain {

template <class E>
using Word = std::pair<E, std::string_view>;

/// The table of an enumeration. The argument only selects the overload.
constexpr auto words_of(DeviceChoice) {
    using enum DeviceChoice;
    return std::array<Word<DeviceChoice>, 3>{{{automatic, "auto"}, {cpu, "cpu"}, {cuda, "cuda"}}};
}
constexpr auto words_of(PositionEmbedding) {
    using enum PositionEmbedding;
    return std::array<Word<PositionEmbedding>, 2>{{{learned, "learned"}, {rope, "rope"}}};
}
constexpr auto words_of(Normalization) {
    using enum Normalization;
    return std::array<Word<Normalization>, 2>{{{layernorm, "layernorm"}, {rmsnorm, "rmsnorm"}}};
}
constexpr auto words_of(Activation) {
    using enum Activation;
    return std::array<Word<Activation>, 2>{{{gelu, "gelu"}, {swiglu, "swiglu"}}};
}
constexpr auto words_of(ContextMethod) {
    using enum ContextMethod;
    return std::array<Word<ContextMethod>, 2>{{{ring, "ring"}, {all_to_all, "all_to_all"}}};
}
constexpr auto words_of(ScheduleKind) {
    using enum ScheduleKind;
    return std::array<Word<ScheduleKind>, 4>{{{gpipe, "gpipe"},
                                              {one_f_one_b, "1f1b"},
                                              {interleaved_one_f_one_b, "interleaved_1f1b"},
                                              {zero_bubble, "zero_bubble"}}};
}
constexpr auto words_of(Precision) {
    using enum Precision;
    return std::array<Word<Precision>, 4>{
        {{fp32, "fp32"}, {bf16, "bf16"}, {fp16, "fp16"}, {fp8, "fp8"}}};
}
constexpr auto words_of(Recompute) {
    using enum Recompute;
    return std::array<Word<Recompute>, 3>{
        {{none, "none"}, {selective, "selective"}, {full, "full"}}};
}
constexpr auto words_of(LrKind) {
    using enum LrKind;
    return std::array<Word<LrKind>, 5>{{{constant, "constant"},
                                        {linear, "linear"},
                                        {cosine, "cosine"},
                                        {wsd, "wsd"},
                                        {inverse_sqrt, "inverse_sqrt"}}};
}
constexpr auto words_of(LossSpike::Action) {
    using enum LossSpike::Action;
    return std::array<Word<LossSpike::Action>, 3>{
        {{skip, "skip"}, {rollback, "rollback"}, {stop, "stop"}}};
}
constexpr auto words_of(InjectedFault::Kind) {
    using enum InjectedFault::Kind;
    return std::array<Word<InjectedFault::Kind>, 9>{{{kill, "kill"},
                                                     {stop, "stop"},
                                                     {error, "error"},
                                                     {nan, "nan"},
                                                     {bit_flip, "bit_flip"},
                                                     {no_space, "no_space"},
                                                     {io_error, "io_error"},
                                                     {short_write, "short_write"},
                                                     {slow, "slow"}}};
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

template <class T>
concept Enumeration = std::is_enum_v<T>;

}  // namespace gptrain
