// The report of a search, for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "search/search.h"

namespace gptrain {

/// The mesh and the settings of the spec itself.
struct OwnSettings {
    std::optional<Found> found;
    std::string refused;  ///< by which rule, if `found` is empty
};

struct SearchReport {
    SearchResult result;
    OwnSettings own;
    std::vector<std::int64_t> global_batches;  ///< that were searched
};

/// The ten best as a table of at most 100 columns, the corners, the spec's own settings, and, for
/// each key, why its other values did not make the list.
std::string to_text(const SearchReport& report, const SearchContext& context);

/// Why a search found nothing: what keeps all candidates out, in a few words.
std::string why_nothing(const SearchResult& result, const SearchContext& context);

/// One JSON object, with a line break at its end (docs/outputs.md lists its members).
std::string to_json(const SearchReport& report, const SearchContext& context);

/// The settings of a candidate, its estimate and its memory, as in `to_json`.
Json json_of(const Found& found);

/// A table of the fastest settings by the number of ranks, and a row of it.
std::string scaling_head();
std::string scaling_row(const SearchResult& result, const SearchContext& context,
                        bool batches_differ);

/// The largest cost of a candidate besides GEMMs and attention: "bubble 12 %".
std::string largest_loss(const StepTime& step);

/// The settings in a few words: "tensor 8 sp, pipeline 8 x 3, data 16, micro batch 1, ...".
std::string describe(const Found& found);

/// The same, also with the settings that rarely differ: layers and shard, and the global
/// batch size if several were searched.
std::string describe_fully(const Found& found, bool batches_differ = false);

/// Why the values of the search's keys that are not among the best are left out.
struct LeftOut {
    std::string key;
    std::string values;  ///< "16" or "16, 32"
    std::string reason;
};
std::vector<LeftOut> left_out(const SearchResult& result, const SearchContext& context);

}  // namespace gptrain
