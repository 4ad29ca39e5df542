// The main function of the communication tests, which run in several processes at once.
#include "base/log.h"
#include "catch_runner.h"
#include "ranks.h"

int main(int argc, char** argv) {
    if (const std::string why = gptrain::test::why_not_run(); !why.empty()) {
        gptrain::print("not run: ", why);
        constexpr int not_run = 77;
        return not_run;
    }
    const gptrain::MpiSession& session = gptrain::test::session();
    const int result = gptrain::test::run_cases(argc, argv);
    // The other ranks wait for messages of a rank that left a case early.
    if (result != 0) session.abort_all(gptrain::ExitCode::bug);
    return 0;
}
