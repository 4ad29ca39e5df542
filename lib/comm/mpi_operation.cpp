#include "comm/mpi_operation.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace gptrain {
namespace {

/// Owns an MPI datatype: `count` runs of `bytes` bytes, `stride` bytes apart.
class RunsType {
public:
    RunsType(std::int64_t count, std::int64_t bytes, std::int64_t stride) {
        check_mpi(MPI_Type_create_hvector(narrow<int>(count), narrow<int>(bytes), stride, MPI_BYTE,
                                          &type_),
                  "MPI_Type_create_hvector");
        check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
    }
    RunsType(const RunsType&) = delete;
    RunsType& operator=(const RunsType&) = delete;
    /// Posted messages keep the datatype alive.
    ~RunsType() { MPI_Type_free(&type_); }
    MPI_Datatype type() const { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// A waiting rank polls and yields its core at first, since sleeping would delay the next message.
/// To the system's scheduler, however, it still looks busy, and takes time from ranks that compute
/// on its core. So after a long wait it sleeps between polls.
constexpr std::chrono::milliseconds yields_for{20};
constexpr std::chrono::milliseconds sleeps_for{1};

}  // namespace

void MpiOperation::post_one(void* data, int count, MPI_Datatype type, bool received,
                            const Post& post) {
    int type_bytes = 0;
    check_mpi(MPI_Type_size(type, &type_bytes), "MPI_Type_size");
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(post(data, count, type, &request), what_);
    requests_.push_back(request);
    expected_.push_back(received ? std::int64_t{count} * type_bytes : -1);
}

void MpiOperation::post(const ByteRuns& runs, bool received, const Post& post) {
    if (runs.total() == 0) return;
    const std::int64_t limit = place_.message_bytes;
    if (runs.bytes > limit) {
        for (std::int64_t run = 0; run < runs.count; ++run) {
            for (std::int64_t begin = 0; begin < runs.bytes; begin += limit) {
                post_one(runs[run] + begin, narrow<int>(std::min(limit, runs.bytes - begin)),
                         MPI_BYTE, received, post);
            }
        }
        return;
    }
    // Splits at whole runs, contiguous or not: the other side's runs may be laid out differently.
    const std::int64_t runs_each = limit / runs.bytes;
    for (std::int64_t run = 0; run < runs.count; run += runs_each) {
        const std::int64_t count = std::min(runs_each, runs.count - run);
        if (runs.contiguous() || count == 1) {
            post_one(runs[run], narrow<int>(count * runs.bytes), MPI_BYTE, received, post);
        } else {
            const RunsType type(count, runs.bytes, runs.stride);
            post_one(runs[run], 1, type.type(), received, post);
        }
    }
}

void MpiOperation::send(const ByteRuns& runs, int to) {
    sent_bytes_ += runs.total();
    post(runs, false, [&](void* data, int count, MPI_Datatype type, MPI_Request* request) {
        return MPI_Isend(data, count, type, to, place_.tag, place_.comm, request);
    });
}

void MpiOperation::receive(const ByteRuns& runs, int from) {
    post(runs, true, [&](void* data, int count, MPI_Datatype type, MPI_Request* request) {
        return MPI_Irecv(data, count, type, from, place_.tag, place_.comm, request);
    });
}

void MpiOperation::enter_barrier() {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(place_.comm, &request), what_);
    requests_.push_back(request);
    expected_.push_back(-1);
}

bool MpiOperation::messages_complete() {
    if (requests_.empty()) return true;
    statuses_.resize(requests_.size());
    int through = 0;
    const int status =
        MPI_Testall(narrow<int>(requests_.size()), requests_.data(), &through, statuses_.data());
    if (status == MPI_ERR_IN_STATUS) {
        for (const MPI_Status& one : statuses_) {
            if (one.MPI_ERROR != MPI_ERR_PENDING) check_mpi(one.MPI_ERROR, what_);
        }
    }
    check_mpi(status, what_);
    if (through == 0) return false;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
        if (expected_[i] < 0) continue;
        MPI_Count bytes = 0;
        check_mpi(MPI_Get_elements_x(&statuses_[i], MPI_BYTE, &bytes), "MPI_Get_elements_x");
        GPTRAIN_CHECK(bytes == expected_[i], what_, ": rank ", statuses_[i].MPI_SOURCE, " sent ",
                      bytes, " bytes instead of ", expected_[i]);
    }
    requests_.clear();
    expected_.clear();
    return true;
}

bool MpiOperation::advance() {
    while (!done_ && messages_complete()) {
        if (stages_.empty()) {
            done_ = true;
        } else {
            const auto stage = std::move(stages_.front());
            stages_.pop_front();
            stage();
        }
    }
    return done_;
}

void MpiProgress::start(const std::shared_ptr<MpiOperation>& operation) {
    active_.push_back(operation);
    advance_all();
}

void MpiProgress::wait(const MpiOperation& operation) {
    const auto began = std::chrono::steady_clock::now();
    while (!operation.done()) {
        advance_all();
        if (operation.done()) return;
        if (std::chrono::steady_clock::now() - began < yields_for)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(sleeps_for);
    }
}

void MpiProgress::advance_all() {
    std::erase_if(active_, [](const auto& operation) { return operation->advance(); });
}

}  // namespace gptrain
