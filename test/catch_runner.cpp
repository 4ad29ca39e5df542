// Catch itself, without a main function, compiled once.
#define CATCH_CONFIG_RUNNER
#include "catch_runner.h"

#include "catch.h"

int gptrain::test::run_cases(int argc, char** argv) {
    return Catch::Session().run(argc, argv);
}
