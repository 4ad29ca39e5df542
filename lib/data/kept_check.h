// Checks of large files that a start need not repeat.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "data/share.h"

namespace gptrain {

/// The findings of a check: checksums and counts.
using FoundNumbers = std::vector<std::int64_t>;

/// The findings of `check` in a share of the files, or those of a process of this user that checked
/// the same share on this node within the last day (NodeCache), if no file has changed since:
/// place, size and times of change are the same. `what` names the check. Runs the check if the
/// share is small, and keeps nothing of a file that was changed moments ago, because it could
/// change once more without another time.
FoundNumbers check_or_recall_share(std::string_view what,
                                   const std::vector<std::filesystem::path>& files, Share share,
                                   const std::function<FoundNumbers()>& check);

}  // namespace gptrain
