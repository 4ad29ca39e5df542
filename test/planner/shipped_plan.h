// The plans of the specs in configs/.
#pragma once

#include <filesystem>
#include <string>

#include "spec/make_plan.h"

namespace gptrain::test {

/// For a dry run on GPUs.
inline RunSpec shipped_spec(const std::string& name) {
    const std::filesystem::path configs =
        std::filesystem::path(GPTRAIN_TEST_DATA) / "../../configs";
    return load_run_spec(configs / (name + ".yaml"));
}

inline PlanTarget for_dry_run(std::int64_t ranks) {
    return {.world_size = ranks, .cuda = true, .dry_run = true};
}

inline RunPlan shipped_plan(const std::string& name, std::int64_t ranks) {
    return make_plan(shipped_spec(name), for_dry_run(ranks));
}

}  // namespace gptrain::test
