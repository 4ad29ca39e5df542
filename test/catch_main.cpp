// The main function of tests that run in one process.
#include "catch_runner.h"

int main(int argc, char** argv) {
    return gptrain::test::run_cases(argc, argv);
}
