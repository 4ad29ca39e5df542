// What the steps of all models say together.
#pragma once

#include "kernel_times/step_table.h"

namespace gptrain::test {

Row share_titles();
/// For one step on one H100, without overlap unless stated otherwise.
std::vector<Row> share_rows(const KernelTable& table, const std::vector<Gpu>& gpus,
                            const std::vector<StepTable>& steps);

}  // namespace gptrain::test
