#include "start.h"

#include "base/log.h"
#include "spec/make_plan.h"

namespace gptrain {

Start start(Ranks& ranks, const RunSpec& spec, const std::optional<std::filesystem::path>& cache,
            StartTimes* times) {
    const MpiSession& session = ranks.session();
    ranks.check_same_spec(to_yaml(spec));
    ranks.share_cores();
    Start start = {.device = open_device(spec, session, cache, times), .plan = {}};
    session.run_on_all([&] {
        start.plan = make_plan(spec, {.world_size = session.size(), .cuda = start.device.cuda});
    });
    ranks.set_mesh(start.plan.mesh);
    if (session.rank() == 0 && !start.plan.int8_warning.empty()) warn(start.plan.int8_warning);
    return start;
}

}  // namespace gptrain
