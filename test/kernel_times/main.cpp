// Writes or compares the times in docs/kernel-times.md.
//
//   kernel_times [--update | --ops]
//
// With --update it writes them; with --ops it prints the work of each step.
#include <cstdio>
#include <string>
#include <vector>

#include "kernel_times/attention.h"
#include "kernel_times/shares.h"
#include "kernel_times/step_table.h"
#include "kernel_times/traffic.h"

namespace gptrain::test {
namespace {

void print_ops(const StepWork& work) {
    for (const auto& [op, count] : work.ops()) {
        print(op.name, " x ", fixed(count, 0), ": ", op.rows, " x ", op.cols, " x ", op.length,
              ", ", fixed(op.flops / 1e9, 1), " GFLOP, ", fixed(op.bytes / 1e6, 2), " MB");
    }
}

int run(const std::string& option) {
    DocPage page(GPTRAIN_SOURCES "/docs/kernel-times.md");
    const KernelTable table(page);
    const std::vector<Gpu> gpus(std::begin(machines), std::end(machines));
    bool good = check_profiles(table, gpus);
    const auto put = [&](const Row& titles, const std::vector<Row>& rows) {
        if (option == "--update") {
            page.replace(titles, rows);
        } else if (option.empty()) {
            good = page.compare(titles, rows) && good;
        }
    };
    put(rate_titles, rate_rows(table, gpus));
    put(traffic_titles, traffic_rows(table, gpus));
    std::vector<StepTable> steps;
    for (const ModelSize& size : sizes) {
        const StepTable& step = steps.emplace_back(table, gpus, size);
        put(step.titles(), step.rows());
        if (option == "--ops") print_ops(step.work());
    }
    put(share_titles(), share_rows(table, gpus, steps));
    if (option == "--update") page.write();
    return good ? 0 : 1;
}

}  // namespace
}  // namespace gptrain::test

int main(int count, char** arguments) {
    try {
        return gptrain::test::run(count > 1 ? arguments[1] : "");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
