// The knowledge that barriers, fences, waits and counters pass on, and to whom (emulator/grid.h,
// clock.h).
#include <unordered_map>
#include <utility>

#include "emulator/races.h"

namespace gptrain::emulator {
namespace {

/// The knowledge that acquiring a counter of global memory passes on, by the counter's address.
std::unordered_map<const void*, Clock>& counters() {
    static std::unordered_map<const void*, Clock> all;
    return all;
}

/// The running thread has waited for the operation.
void complete_here(Operation operation) {
    const Thread& thread = current();
    complete_operation(operation, *thread.block, static_cast<Agent>(thread.index), thread.time);
}

}  // namespace

Knowledge Thread::all_so_far() const {
    Knowledge all = known;
    all.all.raise(block->serial, static_cast<Agent>(index), time);
    return all;
}

void Thread::publish(Knowledge& to) {
    if (!looks_for_races()) return;
    to.join(known);
    to.all.raise(block->serial, static_cast<Agent>(index), time);
    ++time;
}

void Thread::fence_shared() {
    if (!looks_for_races()) return;
    known.fenced_shared = all_so_far().all;
    ++time;
}

void Thread::fence_global() {
    if (!looks_for_races()) return;
    known.fenced_global = all_so_far().all;
    ++time;
}

void order(const std::vector<Thread*>& threads) {
    if (!looks_for_races()) return;
    Knowledge all;
    for (Thread* thread : threads)
        thread->publish(all);
    for (Thread* thread : threads)
        thread->known = all;
}

void release_at(const void* counter) {
    if (!looks_for_races()) return;
    Thread& thread = current();
    counters()[counter] = thread.all_so_far().all;
    ++thread.time;
}

void forget_counters() {
    counters().clear();
}

void acquire_at(const void* counter) {
    if (!looks_for_races()) return;
    const auto found = counters().find(counter);
    if (found != counters().end()) current().known.all.join(found->second);
}

// ---- asynchronous copies ------------------------------------------------------------------------

Operation CopyGroups::open() {
    if (!open_.operation) open_.operation = begin_operation(Proxy::generic);
    return *open_.operation;
}

void CopyGroups::complete(std::size_t pending) {
    for (; groups_.size() > pending; groups_.pop_front()) {
        for (const auto& copy : groups_.front().copies)
            copy();
        if (groups_.front().operation) complete_here(*groups_.front().operation);
    }
}

BulkStores::Operations BulkStores::open() {
    if (!open_.operations)
        open_.operations = {begin_operation(Proxy::async), begin_operation(Proxy::async)};
    return *open_.operations;
}

void BulkStores::complete_reads(std::size_t pending) {
    for (std::size_t i = 0; i + pending < groups_.size(); ++i) {
        Group& group = groups_[i];
        if (std::exchange(group.has_read, true)) continue;
        for (const Store& store : group.stores)
            store.read();
        if (group.operations) complete_here(group.operations->reads);
    }
}

void BulkStores::complete(std::size_t pending) {
    complete_reads(pending);
    for (; groups_.size() > pending; groups_.pop_front()) {
        for (const Store& store : groups_.front().stores)
            store.write();
        if (groups_.front().operations) complete_here(groups_.front().operations->writes);
    }
}

}  // namespace gptrain::emulator
