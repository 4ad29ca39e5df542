# shellcheck shell=bash
# A private Slurm for a test, with three nodes on this machine: n1, and n2 with the feature "second",
# in the partition main, and all of them with n3 in the partition three. Source it after lib.sh.
#
#   run_privately    runs the script once more as the first process in its own namespaces: its
#                    ports, host name and processes are private, and the kernel ends them all with
#                    it, however it ends
#   start_slurm      there, in $work
#   start_node NODE  its daemon, again after lose_node
#   lose_node NODE   kills the daemons and processes of a node, as if it had lost its power

# Required: Debian's and Ubuntu's slurm-wlm, munge and iproute2.
slurm_programs=(munged slurmctld slurmd sbatch srun sinfo scontrol squeue scancel ip unshare setpriv)

run_privately() {
    local program own=(--mount --mount-proc --pid --fork --kill-child --net --uts --ipc)
    ((EUID == 0)) || not_run "needs root"
    for program in "${slurm_programs[@]}"; do
        command -v "$program" >/dev/null || not_run "there is no $program"
    done
    unshare "${own[@]}" ip link set lo up 2>err || not_run "no namespaces of its own: $(tail -n 1 err)"
    # The namespaces end with this process, and what was written there with its folder.
    TMPDIR=$work setpriv --pdeathsig KILL \
        unshare "${own[@]}" bash "$script" "$gptrain" "$preprocess" private &
    wait $!
    exit
}

slurm_conf() {
    cat <<END
ClusterName=private
SlurmctldHost=localhost
SlurmUser=root
AuthType=auth/munge
# A requeued job has to wait as long as cred_expire says.
AuthInfo=socket=$work/slurm/munge.socket,cred_expire=5
StateSaveLocation=$work/slurm/state
SlurmdSpoolDir=$work/slurm/spool-%n
TmpFS=$work/slurm/tmp-%n
SlurmctldPidFile=$work/slurm/slurmctld.pid
SlurmdPidFile=$work/slurm/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
# A node that does not answer is out of service after 10 to 20 seconds, and in service when it does.
SlurmdTimeout=10
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MailProg=/bin/true
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17001 CPUs=2
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17002 CPUs=2 Feature=second
NodeName=n3 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17003 CPUs=2
PartitionName=main Nodes=n1,n2 Default=YES OverSubscribe=FORCE:8
PartitionName=three Nodes=n1,n2,n3 OverSubscribe=FORCE:8
END
}

# Each node has a host name and processes of its own.
declare -A node_process
start_node() {
    unshare --mount-proc --pid --fork --kill-child --uts \
        bash -c 'hostname "$1" && exec slurmd -D -N "$1"' bash "$1" >>"$work/slurm/slurmd-$1.out" 2>&1 &
    node_process[$1]=$!
}

lose_node() { kill -KILL "${node_process[$1]}"; }

start_slurm() {
    local folder=$work/slurm node begun=$SECONDS
    mkdir -p "$folder"/{state,{tmp,spool}-n{1,2,3}}
    # All processes except the first one, which is this one.
    trap '{ kill -KILL -1 && wait; } 2>/dev/null; clean_up' EXIT
    export SLURM_CONF=$folder/slurm.conf
    slurm_conf >"$SLURM_CONF"
    printf '127.0.0.1 %s\n' localhost n1 n2 n3 >"$folder/hosts"
    mount --bind "$folder/hosts" /etc/hosts || not_run "no mounts of its own"
    # Names are only looked up if there is an address other than the loopback's.
    { hostname localhost && ip link set lo up && ip address add 192.0.2.1/32 dev lo; } ||
        not_run "no network of its own"
    head -c 128 /dev/urandom >"$folder/munge.key"
    chmod 400 "$folder/munge.key"
    munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
        --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" \
        --seed-file="$folder/munge.seed" >"$folder/munged.out" 2>&1 &
    slurmctld -D >"$folder/slurmctld.out" 2>&1 &
    for node in n1 n2 n3; do start_node $node; done
    while (($(timeout 2 sinfo --noheader --states=idle --format=%D 2>err | head -n 1) + 0 < 3)); do
        ((SECONDS - begun < 30)) || not_run "Slurm does not start: $(tail -qn 1 "$folder"/*.out)"
        sleep 0.1
    done
    srun --mpi=list 2>&1 | grep -q pmix || not_run "this Slurm has no PMIx"
    # OpenMPI takes the nodes for one machine, whose ranks could share memory.
    export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
}
