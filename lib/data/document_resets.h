// data.reset_at_eod: auto: the token files of a run decide whether documents see each other.
#pragma once

#include <string>

#include "spec/run_spec.h"

namespace gptrain {

/// The value of data.reset_at_eod in force, and a sentence that explains it.
struct DocumentResets {
    bool reset = false;
    std::string reason;  ///< empty where there is nothing to explain
};

/// The value that `auto` has for these training sources. It is true if one of them holds
/// conversations, whose token files have a loss mask (only `gpt-preprocess chat` writes one), and
/// if the end of document is known and stands only where documents end: in none of the first 1,000
/// documents of each such source is the token that ends the first one also inside. Reads these, and
/// the .meta.json files. A source that is missing or faulty counts as one without conversations, so
/// that a plan needs no data; whoever opens it reports the fault.
DocumentResets automatic_resets(const DataSpec& data);

}  // namespace gptrain
