# Sourced by the scripts that start ranks on this machine, and read by test/ranks.cmake.
# Ranks may run as root and be more than the cores, and their threads are not bound to one core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_hwloc_base_binding_policy=none
# Its daemons sometimes crash where they put a description of the machine into shared memory.
export OMPI_MCA_rtc_hwloc_vmhole=none
# Messages stay on this machine. The libraries of other fabrics would take 0.2 s of every start.
export OMPI_MCA_pml=ob1
# OpenMPI never frees its own memory.
export ASAN_OPTIONS=detect_leaks=0
