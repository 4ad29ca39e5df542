#include "comm/run_rank.h"

#include <exception>

#include "base/log.h"
#include "base/process.h"

namespace gptrain {

ExitCode run_rank(const MpiSession& ranks, std::string_view program,
                  const std::function<ExitCode()>& work) {
    if (!ranks.running()) return work();
    disable_terminal_output();
    if (ranks.rank() != 0) silence_stdout();
    try {
        return work();
    } catch (const CommonError& error) {
        if (ranks.rank() == 0) error_line(program, error.what());
        return error.code();
    } catch (const std::exception& error) {
        const Failure failure = failure_of(error);
        error_line(program, text(ranks.name(), ": ", failure.message));
        ranks.abort_all(failure.code);
    }
}

}  // namespace gptrain
