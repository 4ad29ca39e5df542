#include "data/source_parts.h"

#include <cmath>

#include "base/error.h"
#include "data/share.h"

namespace gptrain {
namespace {

void check_weights(const std::vector<DataSource>& specs) {
    double sum = 0;
    for (const DataSource& spec : specs) {
        if (!(spec.weight > 0) || !std::isfinite(spec.weight)) {
            fail(ExitCode::usage, "data: ", spec.prefix.string(), " has weight ", spec.weight,
                 "; weights must be above 0");
        }
        sum += spec.weight;
    }
    for (const DataSource& spec : specs) {
        if (spec.weight / sum > 0) continue;
        fail(ExitCode::usage, "data: ", spec.prefix.string(), " has weight ", spec.weight,
             ", which is too small next to the sum of the weights, ", sum,
             "; leave the source out, or give weights closer together");
    }
}

/// For each part in turn, the tokens and the learned tokens of a share of it.
std::vector<std::int64_t> count_tokens(const std::vector<SourcePart>& parts, Share share) {
    std::vector<std::int64_t> counts;
    for (const SourcePart& part : parts) {
        const IndexRange own = share.of(part.range.end - part.range.begin);
        const std::int64_t begin = part.range.begin + own.begin;
        const std::int64_t end = part.range.begin + own.end;
        counts.push_back(part.tokens->num_tokens(begin, end));
        counts.push_back(part.tokens->learned_tokens(begin, end));
    }
    return counts;
}

}  // namespace

std::vector<OpenedSource> open_sources(const std::vector<DataSource>& specs,
                                       std::int64_t virtual_tokens, const MpiSession* ranks) {
    check_weights(specs);
    std::vector<OpenedSource> sources;
    for (const DataSource& spec : specs) {
        auto tokens = std::make_shared<const IndexedDataset>(spec.prefix, virtual_tokens, ranks);
        sources.push_back({spec, tokens});
        sources.back().spec.prefix = tokens->prefix();
    }
    return sources;
}

std::optional<DataSplit> split_of(const DataSpec& spec) {
    if (!spec.validation.empty()) return std::nullopt;
    return parse_split(spec.split);
}

std::vector<SourcePart> parts_of(const std::vector<OpenedSource>& sources,
                                 const std::optional<DataSplit>& split, DataSplit::Part part,
                                 const MpiSession* ranks) {
    std::vector<SourcePart> parts;
    for (const OpenedSource& source : sources) {
        const std::int64_t count = source.tokens->num_sequences();
        parts.push_back({.tokens = source.tokens,
                         .range = split ? split->range(part, count) : SequenceRange{0, count},
                         .weight = source.spec.weight});
    }
    std::vector<std::int64_t> counts;
    if (ranks == nullptr) {
        counts = count_tokens(parts, Share{});
    } else {
        ranks->run_on_all([&] { counts = count_tokens(parts, {ranks->rank(), ranks->size()}); });
        ranks->sum(counts);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        parts[i].num_tokens = counts[2 * i];
        parts[i].learned_tokens = counts[2 * i + 1];
    }
    return parts;
}

std::int64_t learned_tokens_of(const std::vector<SourcePart>& parts) {
    std::int64_t tokens = 0;
    for (const SourcePart& part : parts)
        tokens += part.learned_tokens;
    return tokens;
}

std::int64_t tokens_of(const std::vector<SourcePart>& parts) {
    std::int64_t tokens = 0;
    for (const SourcePart& part : parts)
        tokens += part.num_tokens;
    return tokens;
}

}  // namespace gptrain
