#include "fault_log.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace gptrain {
namespace {

constexpr std::int64_t reported_faults = 10;

/// Skipping does not help if the fault is not the document's.
std::string_view advice_on(DocumentFault fault) {
    switch (fault) {
        case DocumentFault::too_long:
            return "raise --max-document-bytes, or skip such documents with --on-error skip";
        case DocumentFault::chat_template:
            return "the template cannot render a plain question with its answer either: give "
                   "another one with --template";
        default: return "repair it, or skip such documents with --on-error skip";
    }
}

}  // namespace

LocatedFault locate(FaultyDocument document, const std::string& path, const Record& record) {
    return {place_of(record, path), std::move(document)};
}

void FaultLog::add(const LocatedFault& fault) {
    if (!skip_) {
        fail(ExitCode::bad_input, fault.place, ": ", fault.document.what, "; ",
             advice_on(fault.document.fault));
    }
    if (count_ < reported_faults) {
        warn(fault.place, ": skipped: ", fault.document.what);
    } else if (count_ == reported_faults) {
        warn("skipping more documents; the total is printed at the end");
    }
    ++count_;
    ++by_kind_[static_cast<std::size_t>(fault.document.fault)];
}

void FaultLog::add(const Counts& others) {
    for (std::size_t kind = 0; kind < by_kind_.size(); ++kind) {
        by_kind_[kind] += others[kind];
        count_ += others[kind];
    }
}

std::string FaultLog::summary() const {
    if (count_ == 0) return "";
    std::string kinds;
    for (std::size_t kind = 0; kind < by_kind_.size(); ++kind) {
        if (by_kind_[kind] == 0) continue;
        kinds += text(kinds.empty() ? ": " : ", ", by_kind_[kind], " with ",
                      name_of(static_cast<DocumentFault>(kind)));
    }
    return text("skipped ", count_, count_ == 1 ? " document" : " documents", kinds);
}

}  // namespace gptrain
