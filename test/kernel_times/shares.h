// What the steps of all models say together.
#pragma once

#include "kernel_times/step_table.h"

namespace gptrain::test {

Row share_titles();
/// Of steps on one H100. All without overlap, if not said otherwise.
std::vector<Row> share_rows(const KernelTable& table, const std::vector<Gpu>& gpus,
                            const std::vector<StepTable>& steps);

}  // namespace gptrain::test
