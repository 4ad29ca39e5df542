#include "serve/step_message.h"

#include <cstring>

#include "base/error.h"

namespace gptrain {
namespace {

template <class T>
void put(std::string& bytes, const T* values, std::size_t count) {
    bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

/// The ranks are of one program on one kind of machine.
template <class T>
void take(std::string_view& bytes, T* values, std::size_t count) {
    GPTRAIN_CHECK(bytes.size() >= count * sizeof(T));
    if (count > 0) std::memcpy(values, bytes.data(), count * sizeof(T));
    bytes.remove_prefix(count * sizeof(T));
}

}  // namespace

std::string encode_step(const StepMessage& message) {
    std::string bytes(1, message.stop ? 's' : 'g');
    for (const TextStep& step : message.steps) {
        const std::int64_t head[] = {step.place, step.before, step.logits, std::ssize(step.tokens),
                                     step.copied_from.value_or(-1)};
        put(bytes, head, std::size(head));
        put(bytes, step.tokens.data(), step.tokens.size());
    }
    return bytes;
}

StepMessage decode_step(std::string_view bytes) {
    StepMessage message;
    GPTRAIN_CHECK(!bytes.empty());
    message.stop = bytes.front() == 's';
    bytes.remove_prefix(1);
    while (!bytes.empty()) {
        std::int64_t head[5];
        take(bytes, head, std::size(head));
        TextStep step = {.place = head[0], .before = head[1], .tokens = {}, .logits = head[2]};
        step.tokens.resize(static_cast<std::size_t>(head[3]));
        if (head[4] >= 0) step.copied_from = head[4];
        take(bytes, step.tokens.data(), step.tokens.size());
        message.steps.push_back(std::move(step));
    }
    return message;
}

}  // namespace gptrain
