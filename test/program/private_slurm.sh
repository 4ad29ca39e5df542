# shellcheck shell=bash
# A private Slurm for a test, with three nodes on this machine: n1, and n2 with the feature "second",
# in the partition main, and all of them with n3 in the partition three. Source it after lib.sh.
#
#   run_privately    runs the script once more as the first process in its own namespaces: its
#                    ports, host name and processes are private, and the kernel ends them all with
#                    it, however it ends
#   limit_memory     before it: jobs have no more memory than they ask for, if the kernel's cgroups allow
#                    that (`memory_limits`)
#   start_slurm      there, in $work
#   start_node NODE  its daemon, again after lose_node
#   lose_node NODE   kills the daemons and processes of a node, as if it had lost its power
#   cut_node NODE    its network is down, and packets are lost without a word; join_node: up again
#
# Each node has a separate network if the kernel has bridges (`cuts`); else all share the loopback.

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

cuts=""
# address NODE
address() { if [[ -n $cuts ]]; then echo "192.0.2.1${1#n}"; else echo 127.0.0.1; fi; }

memory_limits=""
limit_memory() {
    local try=/sys/fs/cgroup/memory/gptrain-test-$$
    { mkdir "$try" && rmdir "$try"; } 2>/dev/null || return 0
    memory_limits=yes
    mkdir -p "$work/slurm"
    printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n' \
        >"$work/slurm/cgroup.conf"
}

slurm_conf() {
    local memory=""
    if [[ -n $memory_limits ]]; then
        memory=RealMemory=64000
        printf '%s\n' TaskPlugin=task/cgroup SlurmdParameters=config_overrides DefMemPerNode=2000 \
            SelectTypeParameters=CR_Core_Memory
    else
        printf '%s\n' TaskPlugin=task/none SelectTypeParameters=CR_Core
    fi
    cat <<END
ClusterName=private
SlurmctldHost=localhost(${cuts:-127.0.0.1})
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
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
# A node that does not answer is out of service after 10 to 20 seconds, and in service when it does.
SlurmdTimeout=10
ReturnToService=2
SelectType=select/cons_tres
MailProg=/bin/true
NodeName=n1 NodeHostname=localhost NodeAddr=$(address n1) Port=17001 CPUs=2 $memory
NodeName=n2 NodeHostname=localhost NodeAddr=$(address n2) Port=17002 CPUs=2 $memory Feature=second
NodeName=n3 NodeHostname=localhost NodeAddr=$(address n3) Port=17003 CPUs=2 $memory
PartitionName=main Nodes=n1,n2 Default=YES OverSubscribe=FORCE:8
PartitionName=three Nodes=n1,n2,n3 OverSubscribe=FORCE:8
END
}

# Each node has a host name and processes of its own.
declare -A node_process
start_node() {
    local own=(--mount-proc --pid --fork --kill-child --uts) child=""
    [[ -z $cuts ]] || own+=(--net)
    unshare "${own[@]}" bash -c '
        if [[ -n $3 ]]; then
            until ip address add "$2/24" dev eth0 2>/dev/null; do sleep 0.1; done
            ip link set lo up && ip link set eth0 up
        fi
        hostname "$1" && { slurmd -D -N "$1" & wait; }  # as the first process, bash reaps orphans
    ' bash "$1" "$(address "$1")" "$cuts" >>"$work/slurm/slurmd-$1.out" 2>&1 &
    node_process[$1]=$!
    [[ -n $cuts ]] || return 0
    # The process may be about to start, and the network of a node that was lost about to go.
    until child=$(pgrep -P "${node_process[$1]}" -x bash) &&
        ip link add "to-$1" type veth peer name eth0 netns "$child" 2>/dev/null; do sleep 0.1; done
    ip link set "to-$1" master nodes up
}

lose_node() { kill -KILL "${node_process[$1]}"; }
cut_node() { ip link set "to-$1" down; }
join_node() { ip link set "to-$1" up; }

# Makes a disk that can stand still, in the folder "disk". Call it before start_slurm: nodes find it at
# their start.
make_disk() {
    mkdir disk && truncate -s 64M disk.image && mkfs.ext4 -q disk.image 2>err &&
        mount -o loop disk.image disk 2>err || not_run "no separate disk: $(tail -n 1 err)"
}
free_disk() {
    [[ -e $work/disk.image ]] || return 0
    { fsfreeze --unfreeze "$work/disk"; umount --lazy "$work/disk"; } 2>/dev/null
}

start_slurm() {
    local folder=$work/slurm node begun=$SECONDS
    mkdir -p "$folder"/{state,{tmp,spool}-n{1,2,3}}
    # All processes except the first one, which is this one.
    trap '{ free_disk; kill -KILL -1 && wait; } 2>/dev/null; free_disk; clean_up' EXIT
    export SLURM_CONF=$folder/slurm.conf
    # Names are only looked up if there is an address other than the loopback's.
    { hostname localhost && ip link set lo up; } || not_run "no separate network"
    if ip link add nodes type bridge 2>/dev/null && ip link add probe type veth peer name probed 2>/dev/null; then
        ip link delete probe
        cuts=192.0.2.1
        ip address add $cuts/24 dev nodes && ip link set nodes up || not_run "no separate bridge"
    else
        ip address add 192.0.2.1/32 dev lo || not_run "no separate address"
    fi
    slurm_conf >"$SLURM_CONF"
    echo "127.0.0.1 localhost" >"$folder/hosts"
    for node in n1 n2 n3; do echo "$(address $node) $node" >>"$folder/hosts"; done
    mount --bind "$folder/hosts" /etc/hosts || not_run "no mounts of its own"
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
    [[ -z $cuts ]] || OMPI_MCA_btl_tcp_if_include=eth0
}
