#include "data/split.h"

#include <cmath>

#include "base/error.h"

namespace gptrain {
namespace {

[[noreturn]] void refuse(std::string_view text) {
    fail(ExitCode::usage, "data.split: \"", text,
         "\" is not a list of up to three comma-separated weights, such as \"969,30,1\"");
}

/// Accepts only what Megatron reads the same way: digits and a point.
double parse_weight(std::string_view word, std::string_view text) {
    while (!word.empty() && word.front() == ' ')
        word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ')
        word.remove_suffix(1);
    const bool plain = word.find_first_not_of(".0123456789") == std::string_view::npos;
    const std::optional<double> weight = plain ? parse_double(word) : std::nullopt;
    if (!weight) refuse(text);
    return *weight;
}

}  // namespace

DataSplit parse_split(std::string_view text) {
    std::array<double, 3> weights{};
    std::size_t count = 0;
    std::string_view rest = text;
    for (bool more = true; more;) {
        const std::size_t comma = rest.find(',');
        more = comma != std::string_view::npos;
        if (count == weights.size()) refuse(text);
        weights[count++] = parse_weight(rest.substr(0, comma), text);
        if (more) rest.remove_prefix(comma + 1);
    }
    const double sum = weights[0] + weights[1] + weights[2];
    if (!(sum > 0) || !std::isfinite(sum)) refuse(text);

    DataSplit split;
    double low = 0;
    for (std::size_t part = 0; part < weights.size(); ++part) {
        const double high = low + weights[part] / sum;
        if (high > low) split.parts[part] = DataSplit::Bounds{low, high};
        low = high;
    }
    return split;
}

SequenceRange DataSplit::range(Part part, std::int64_t num_sequences) const {
    const std::optional<Bounds>& bounds = parts[part];
    if (!bounds) return {};
    const double count = static_cast<double>(num_sequences);
    return {std::llrint(bounds->low * count), std::llrint(bounds->high * count)};
}

}  // namespace gptrain
