// Finds races: two accesses of the same bytes, at least one of them a write, that nothing orders.
// Every access is kept with its agent and time, and compared with the clocks of later ones (after
// FastTrack, Flanagan and Freund 2009, doi:10.1145/1542476.1542490). Plain accesses come from the
// compiler's instrumentation (instrumentation.cpp), all others from the twins of cuda/device.
//
// Two launches are in order, as in one stream. Bytes that several blocks have read must not be
// written in the same launch, even in order: of the reads of several blocks only the fact is kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/grid.h"

namespace gptrain::emulator {

/// A constant is read through a cache that no write updates: no thread of the launch may write it,
/// not even in order.
enum class AccessKind : std::uint8_t { read, constant, write, atomic };

/// Which path to memory an access takes. The proxies see each other's writes only after a fence.
enum class Proxy : std::uint8_t { generic, async };

/// An access of the running thread, a fault if it races. `what` is for reports, `place` the
/// instruction if known.
void note_access(const void* p, std::size_t bytes, AccessKind kind, const char* what,
                 const void* place = nullptr);

/// Starts an operation of the running thread, with its knowledge.
Operation begin_operation(Proxy proxy);
/// An access of an operation that the running thread has just started.
void note_access_of(Operation operation, const void* p, std::size_t bytes, AccessKind kind,
                    const char* what);
/// From now on the operation counts as done by this agent of the block at this time.
void complete_operation(Operation operation, const Block& block, Agent agent, Time time);

/// A read of shared memory by the async proxy that has begun with this knowledge and is complete
/// once a thread knows the agent's time.
void note_product_read(const void* p, std::size_t bytes, const Knowledge& known, Agent agent,
                       Time time);

}  // namespace gptrain::emulator
