// Catch itself, without a main function, compiled once.
#define CATCH_CONFIG_RUNNER
#include "catch_runner.h"

#include "catch.h"

// Catch returns the number of failures, which could be taken for a code with a meaning (77, 124).
int gptrain::test::run_cases(int argc, char** argv) {
    return Catch::Session().run(argc, argv) == 0 ? 0 : 1;
}
