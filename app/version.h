// The output of --version.
#pragma once

#include <string>
#include <string_view>

namespace gptrain {

/// "gptrain 0.2.0 (cpu backend)".
std::string version_text();

/// The same, followed by a line each for commit, compiler and libraries.
std::string version_report();

/// The commit that was built, with "-dirty" if the sources differ from it; "unknown" if the sources
/// are no git checkout. The source that defines it is made at every build.
std::string_view built_commit();

}  // namespace gptrain
