#include "comm/mpi_session.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <numeric>
#include <stop_token>
#include <thread>

#include "base/checked.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "comm/mpi_state.h"

namespace gptrain {
namespace {

/// Number of tasks that srun started together; 1 outside a Slurm step.
std::int64_t slurm_tasks(const Environment& environment) {
    const char* tasks = environment("SLURM_STEP_NUM_TASKS");
    return tasks == nullptr ? 1 : parse_int(tasks).value_or(1);
}

[[noreturn]] void refuse_disconnected_tasks(std::int64_t tasks) {
    fail(ExitCode::usage, "Slurm started ", tasks,
         " tasks without MPI between them: each would run alone and write the same files; "
         "start them with `srun --mpi=pmix` (`srun --mpi=list` lists what this Slurm supports)");
}

const char* process_environment(const char* name) {
    return std::getenv(name);
}

/// For how long ranks may look for each other, before a watchdog knows them.
std::chrono::seconds connect_limit(const Environment& environment) {
    constexpr std::int64_t usual = 600;
    const char* wanted = environment("GPTRAIN_CONNECT_SECONDS");
    if (wanted == nullptr) return std::chrono::seconds(usual);
    const std::optional<std::int64_t> seconds = parse_int(wanted);
    if (!seconds || *seconds < 1)
        fail(ExitCode::usage, "GPTRAIN_CONNECT_SECONDS is '", wanted, "', not a number of seconds");
    return std::chrono::seconds(*seconds);
}

/// Ends the process with the exit code of a hang after this time, unless it is destroyed before.
/// MPI waits forever for a rank that has not started, or for a message of the launcher that is
/// lost.
class ConnectLimit {
public:
    explicit ConnectLimit(std::chrono::seconds limit)
        : thread_([limit](const std::stop_token& stop) {
              std::mutex mutex;
              std::condition_variable_any changed;
              std::unique_lock lock(mutex);
              changed.wait_for(lock, stop, limit, [] { return false; });
              if (stop.stop_requested()) return;
              error_line("gptrain",
                         text("the ranks have not found each other within ", limit.count(),
                              " s (GPTRAIN_CONNECT_SECONDS); restart the run, it continues from "
                              "the newest checkpoint"));
              std::_Exit(static_cast<int>(ExitCode::hang));
          }) {}

private:
    std::jthread thread_;
};

void start_mpi() {
    const ConnectLimit watched(connect_limit(process_environment));
    int provided = MPI_THREAD_SINGLE;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_FUNNELED)
        fail(ExitCode::usage,
             "this MPI does not support threads (MPI_THREAD_FUNNELED is required)");
    // Before we create communicators, MPI uses this one's error handler.
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
              "MPI_Comm_set_errhandler");
}

/// Our own communicator, so that no library's messages are confused with ours.
MpiHandle copy_of_world() {
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    return MpiHandle(comm);
}

MpiHandle ranks_of_this_machine(const MpiHandle& world, int rank) {
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(world.comm(), MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &comm),
              "MPI_Comm_split_type");
    return MpiHandle(comm);
}

int rank_in(const MpiHandle& handle) {
    int rank = 0;
    check_mpi(MPI_Comm_rank(handle.comm(), &rank), "MPI_Comm_rank");
    return rank;
}

int size_of(const MpiHandle& handle) {
    int size = 0;
    check_mpi(MPI_Comm_size(handle.comm(), &size), "MPI_Comm_size");
    return size;
}

// Tag of messages between rank 0 and another rank.
constexpr int text_tag = 1;

std::string receive_text(MPI_Comm comm, int from) {
    MPI_Status status;
    check_mpi(MPI_Probe(from, text_tag, comm, &status), "MPI_Probe");
    int length = 0;
    check_mpi(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count");
    std::string text(static_cast<std::size_t>(length), '\0');
    check_mpi(MPI_Recv(text.data(), length, MPI_CHAR, from, text_tag, comm, MPI_STATUS_IGNORE),
              "MPI_Recv");
    return text;
}

void send_text(MPI_Comm comm, int to, const std::string& text) {
    check_mpi(MPI_Send(text.data(), narrow<int>(text.size()), MPI_CHAR, to, text_tag, comm),
              "MPI_Send");
}

/// Sets each value to its reduction over all ranks.
template <class T>
void all_reduce(MPI_Comm comm, std::span<T> values, MPI_Datatype type, MPI_Op operation) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow<int>(std::ssize(values)), type,
                            operation, comm),
              "MPI_Allreduce");
}

/// Reports an operation to a listener, if any, from here to the end of the scope.
class ReportedOperation {
public:
    ReportedOperation(SessionListener* listener, std::string_view operation) : listener_(listener) {
        if (listener_ != nullptr) listener_->on_wait(operation);
    }
    ReportedOperation(const ReportedOperation&) = delete;
    ReportedOperation& operator=(const ReportedOperation&) = delete;
    ~ReportedOperation() {
        if (listener_ != nullptr) listener_->on_wait_end();
    }

private:
    SessionListener* listener_;
};

/// The failure of `work` as text: exit code in decimal, a space, `whose`, the message; empty if it
/// succeeds.
std::string fault_text(std::string_view whose, const std::function<void()>& work) {
    try {
        work();
    } catch (const CommonError&) {
        throw;  // all ranks know of it
    } catch (const std::exception& error) {
        const Failure failure = failure_of(error);
        return text(static_cast<int>(failure.code), " ", whose, failure.message);
    }
    return {};
}

volatile std::sig_atomic_t code_on_crash = 0;

/// OpenMPI sometimes crashes in MPI_Abort if several ranks call it at once (4.1.4: in 4 of 60 tries
/// on a busy machine). Everything has been reported by then; this keeps our exit code.
void exit_on_crash(ExitCode code) {
    code_on_crash = static_cast<int>(code);
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT})
        std::signal(signal, [](int) { std::_Exit(code_on_crash); });
}

}  // namespace

std::string mpi_version() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> all{};
    int length = 0;
    check_mpi(MPI_Get_library_version(all.data(), &length), "MPI_Get_library_version");
    const std::string_view version(all.data(), narrow<std::size_t>(length));
    // Open MPI lists its package behind a comma, MPICH its configuration on further lines.
    return std::string(version.substr(0, version.find_first_of(",\n")));
}

bool launcher_provides_mpi(const Environment& environment) {
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE",
                                 "PALS_RANKID", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE"}) {
        if (environment(variable) != nullptr) return true;
    }
    if (const std::int64_t tasks = slurm_tasks(environment); tasks > 1)
        refuse_disconnected_tasks(tasks);
    return false;
}

void check_world_size(int size, const Environment& environment) {
    // mpirun's count; absent if Slurm started the program directly.
    if (size > 1 || environment("OMPI_COMM_WORLD_SIZE") != nullptr) return;
    if (const std::int64_t tasks = slurm_tasks(environment); tasks > 1)
        refuse_disconnected_tasks(tasks);
}

MpiSession::MpiSession() {
    if (!launcher_provides_mpi(process_environment)) return;
    start_mpi();
    state_ = std::make_unique<MpiState>();
    state_->world = copy_of_world();
    rank_ = rank_in(state_->world);
    size_ = size_of(state_->world);
    name_ = text("rank ", rank_);
    const MpiHandle machine = ranks_of_this_machine(state_->world, rank_);
    local_rank_ = rank_in(machine);
    local_size_ = size_of(machine);
    node_ = rank_;
    check_mpi(MPI_Bcast(&node_, 1, MPI_INT, 0, machine.comm()), "MPI_Bcast");
    try {
        check_world_size(size_, process_environment);
    } catch (const Error&) {
        MPI_Finalize();
        throw;
    }
}

MpiSession::~MpiSession() {
    if (!running()) return;
    if (std::uncaught_exceptions() > 0) abort_all(ExitCode::bug);
    const ReportedOperation reported(listener_, "finalize");
    state_.reset();
    MPI_Finalize();
}

std::vector<std::string> MpiSession::exchange(const std::string& mine) const {
    if (!running()) return {mine};
    const ReportedOperation reported(listener_, "exchange");
    const MPI_Comm world = state_->world.comm();
    const int length = narrow<int>(mine.size());
    std::vector<int> lengths(static_cast<std::size_t>(size_));
    check_mpi(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, world),
              "MPI_Allgather");
    const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    narrow<int>(total);  // MPI counts in int
    std::vector<int> begins(lengths.size());
    std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
    std::string all(static_cast<std::size_t>(total), '\0');
    check_mpi(MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(),
                             begins.data(), MPI_CHAR, world),
              "MPI_Allgatherv");
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        texts.push_back(
            all.substr(static_cast<std::size_t>(begins[i]), static_cast<std::size_t>(lengths[i])));
    }
    return texts;
}

std::vector<std::string> MpiSession::gather(const std::string& mine) const {
    const ReportedOperation reported(listener_, "gather");
    if (rank_ != 0) {
        send_text(state_->world.comm(), 0, mine);
        return {};
    }
    std::vector<std::string> texts = {mine};
    for (int rank = 1; rank < size_; ++rank)
        texts.push_back(receive_text(state_->world.comm(), rank));
    return texts;
}

std::string MpiSession::reduce(std::string mine, const Merge& merge) const {
    if (!running()) return mine;
    const ReportedOperation reported(listener_, "reduce");
    const MPI_Comm world = state_->world.comm();
    for (int distance = 1; distance < size_; distance *= 2) {
        if (rank_ % (2 * distance) != 0) {
            send_text(world, rank_ - distance, mine);
            return {};
        }
        if (rank_ + distance < size_) mine = merge(mine, receive_text(world, rank_ + distance));
    }
    return mine;
}

std::string MpiSession::scatter(const std::function<std::string(int rank)>& text_for) const {
    const ReportedOperation reported(listener_, "scatter");
    if (rank_ != 0) return receive_text(state_->world.comm(), 0);
    for (int rank = 1; rank < size_; ++rank)
        send_text(state_->world.comm(), rank, text_for(rank));
    return text_for(0);
}

std::string MpiSession::broadcast(std::string text) const {
    if (!running()) return text;
    const ReportedOperation reported(listener_, "broadcast");
    const MPI_Comm world = state_->world.comm();
    std::int64_t size = std::ssize(text);
    check_mpi(MPI_Bcast(&size, 1, MPI_INT64_T, 0, world), "MPI_Bcast");
    text.resize(static_cast<std::size_t>(size));
    check_mpi(MPI_Bcast(text.data(), narrow<int>(size), MPI_CHAR, 0, world), "MPI_Bcast");
    return text;
}

void MpiSession::pass(const std::function<Message()>& next, int to,
                      const std::function<void(Message)>& take, int from) const {
    const ReportedOperation reported(listener_, "pass");
    bool sending = to != nobody;
    bool receiving = from != nobody;
    std::vector<std::byte> received;
    std::exception_ptr fault;
    const auto run = [&](const auto& work) {
        if (fault) return;
        try {
            work();
        } catch (...) {
            fault = std::current_exception();
        }
    };
    while (sending || receiving) {
        Message message;
        if (sending) run([&] { message = next(); });
        const int receiver = sending ? to : MPI_PROC_NULL;
        const int sender = receiving ? from : MPI_PROC_NULL;
        const int length = narrow<int>(message.size());
        int incoming = 0;
        const MPI_Comm world = state_->world.comm();
        check_mpi(MPI_Sendrecv(&length, 1, MPI_INT, receiver, text_tag, &incoming, 1, MPI_INT,
                               sender, text_tag, world, MPI_STATUS_IGNORE),
                  "MPI_Sendrecv");
        received.resize(static_cast<std::size_t>(incoming));
        check_mpi(
            MPI_Sendrecv(message.data(), length, MPI_BYTE, receiver, text_tag, received.data(),
                         incoming, MPI_BYTE, sender, text_tag, world, MPI_STATUS_IGNORE),
            "MPI_Sendrecv");
        if (receiving && incoming > 0) run([&] { take(received); });
        sending = sending && length > 0;
        receiving = receiving && incoming > 0;
    }
    if (fault) std::rethrow_exception(fault);
}

std::int64_t MpiSession::max(std::int64_t mine) const {
    if (!running()) return mine;
    const ReportedOperation reported(listener_, "largest");
    all_reduce(state_->world.comm(), std::span(&mine, 1), MPI_INT64_T, MPI_MAX);
    return mine;
}

std::int64_t MpiSession::sum(std::int64_t mine) const {
    sum(std::span(&mine, 1));
    return mine;
}

void MpiSession::sum(std::span<double> values) const {
    if (!running()) return;
    const ReportedOperation reported(listener_, "sum");
    all_reduce(state_->world.comm(), values, MPI_DOUBLE, MPI_SUM);
}

void MpiSession::sum(std::span<std::int64_t> values) const {
    if (!running()) return;
    const ReportedOperation reported(listener_, "sum");
    all_reduce(state_->world.comm(), values, MPI_INT64_T, MPI_SUM);
}

std::uint64_t MpiSession::exclusive_or(std::uint64_t mine) const {
    if (!running()) return mine;
    const ReportedOperation reported(listener_, "exclusive or");
    all_reduce(state_->world.comm(), std::span(&mine, 1), MPI_UINT64_T, MPI_BXOR);
    return mine;
}

void MpiSession::run_on_all(const std::function<void()>& work) const {
    const std::string whose = size_ > 1 ? name_ + ": " : "";
    for (const std::string& fault : exchange(fault_text(whose, work))) {
        if (fault.empty()) continue;
        const std::size_t blank = fault.find(' ');
        const auto code = parse_int(std::string_view(fault).substr(0, blank)).value_or(1);
        throw CommonError(static_cast<ExitCode>(code), fault.substr(blank + 1));
    }
}

void MpiSession::abort_all(ExitCode code) const {
    exit_on_crash(code);
    if (running()) MPI_Abort(state_->world.comm(), static_cast<int>(code));
    std::_Exit(static_cast<int>(code));
}

}  // namespace gptrain
