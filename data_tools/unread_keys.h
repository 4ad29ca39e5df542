// The keys of lines with conversations that were not used.
#pragma once

#include <set>
#include <string>

#include "comm/mpi_session.h"

namespace gptrain {

/// Adds keys to `all`, of which the first ones in alphabetical order stay.
void add_unread_keys(std::set<std::string> more, std::set<std::string>& all);

/// Prints one line with the keys of all ranks, if there are any. All ranks call it.
void report_unread_keys(const std::set<std::string>& mine, const MpiSession& ranks);

}  // namespace gptrain
