#include "spec/spec_words.h"

namespace gptrain {
namespace {

template <Enumeration E>
constexpr std::string_view word_of(E value) {
    for (const auto& [candidate, word] : words_of(value)) {
        if (candidate == value) return word;
    }
    return "?";
}

}  // namespace

std::string_view name_of(DeviceChoice value) {
    return word_of(value);
}
std::string_view name_of(PositionEmbedding value) {
    return word_of(value);
}
std::string_view name_of(Normalization value) {
    return word_of(value);
}
std::string_view name_of(Activation value) {
    return word_of(value);
}
std::string_view name_of(ContextMethod value) {
    return word_of(value);
}
std::string_view name_of(ScheduleKind value) {
    return word_of(value);
}
std::string_view name_of(Precision value) {
    return word_of(value);
}
std::string_view name_of(Recompute value) {
    return word_of(value);
}
std::string_view name_of(LrKind value) {
    return word_of(value);
}
std::string_view name_of(LossSpike::Action value) {
    return word_of(value);
}
std::string_view name_of(InjectedFault::Kind value) {
    return word_of(value);
}

}  // namespace gptrain
