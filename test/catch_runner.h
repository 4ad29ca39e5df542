#pragma once

namespace gptrain::test {

/// Runs the test cases that the arguments select, as Catch's own main function does. Returns 0 if
/// all passed.
int run_cases(int argc, char** argv);

}  // namespace gptrain::test
