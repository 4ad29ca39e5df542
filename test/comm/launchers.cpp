#include <map>
#include <string>

#include "catch.h"
#include "comm/mpi_session.h"

namespace gptrain {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(const Variables& variables) {
    return [&variables](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    };
}

bool offers(const Variables& variables) {
    return launcher_provides_mpi(environment_of(variables));
}

/// True if it is a usage Error that names srun's option.
template <class F>
bool names_pmix(const F& f) {
    try {
        f();
    } catch (const Error& error) {
        return error.code() == ExitCode::usage &&
               std::string(error.what()).find("srun --mpi=pmix") != std::string::npos;
    }
    return false;
}

}  // namespace

TEST_CASE("MPI is started where a launcher offers it, and nowhere else") {
    CHECK_FALSE(offers({}));
    CHECK(offers({{"OMPI_COMM_WORLD_SIZE", "4"}}));
    CHECK(offers({{"OMPI_COMM_WORLD_SIZE", "1"}}));
    CHECK(offers({{"PMI_RANK", "0"}}));
    CHECK(offers({{"PMIX_RANK", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}}));
    CHECK(offers({{"PALS_RANKID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}}));
    CHECK_FALSE(offers({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}));
    // In the batch script itself, before any srun, Slurm sets the job's tasks but no step's.
    CHECK_FALSE(offers({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}));
    CHECK_FALSE(offers({{"SLURM_STEP_NUM_TASKS", "many"}}));
}

TEST_CASE("Tasks of Slurm that MPI does not connect are refused") {
    const Variables step = {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}};
    CHECK(names_pmix([&] { offers(step); }));

    Variables connected = step;
    connected["PMIX_RANK"] = "0";
    CHECK(names_pmix([&] { check_world_size(1, environment_of(connected)); }));
    CHECK_FALSE(names_pmix([&] { check_world_size(4, environment_of(connected)); }));
    // mpirun started one rank; the Slurm step belongs to its daemons.
    connected["OMPI_COMM_WORLD_SIZE"] = "1";
    CHECK_FALSE(names_pmix([&] { check_world_size(1, environment_of(connected)); }));
    CHECK_FALSE(names_pmix([&] { check_world_size(1, environment_of({})); }));
}

}  // namespace gptrain
