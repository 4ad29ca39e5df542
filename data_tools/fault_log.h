// The rejected documents of a corpus: where, why and how many.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "text/documents.h"

namespace gptrain {

/// Where and why a document was rejected.
struct LocatedFault {
    std::string place;  ///< "FILE:LINE: byte OFFSET"
    FaultyDocument document;
};

LocatedFault locate(FaultyDocument document, const std::string& path, const Record& record);

/// Counts and reports skipped documents.
class FaultLog {
public:
    explicit FaultLog(bool skip) : skip_(skip) {}
    /// With policy stop, throws Error (bad_input). With policy skip, warns about the first ten and
    /// counts all.
    void add(const LocatedFault& fault);
    /// Counts of skipped documents by DocumentFault.
    using Counts = std::array<std::int64_t, document_fault_kinds>;
    const Counts& counts() const { return by_kind_; }
    /// Adds what another rank's log counted.
    void add(const Counts& others);
    /// "skipped 3 documents: 2 with invalid UTF-8, 1 with a missing key"; empty if there are none.
    std::string summary() const;

private:
    bool skip_;
    std::int64_t count_ = 0;
    Counts by_kind_{};
};

}  // namespace gptrain
