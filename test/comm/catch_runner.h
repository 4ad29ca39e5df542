#pragma once

namespace gptrain::test {

/// Runs the test cases that the arguments choose, as Catch's own main function does; 0 if all held.
int run_cases(int argc, char** argv);

}  // namespace gptrain::test
