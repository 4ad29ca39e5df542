// The time of a training step on given hardware: the steps of all stages of a pipeline, as the
// meter recorded them (engine/step_trace.h), under the rules of the backend's streams.
#pragma once

#include "planner/long_times.h"
#include "planner/stage_time.h"

namespace gptrain {

/// Simulates three steps, of which the last counts. The rules of a device with streams (CUDA,
/// NCCL):
///  - the host issues ops and messages in order, issue_seconds or message_issue_seconds each, and
///  waits for nothing, except
///    for the end of a step if it reads its result (PipelineTraces.host_reads);
///  - ops run one after another; an op starts when it is issued and the last one has ended;
///  - a message starts when it is issued, the ops issued before it have ended, the communicator's
///    last message has ended, and (software.in_order) every message issued before it has started;
///  - a message between stages, or a sum over them, moves data once all its ranks have started;
///  - an op after a wait starts when the message has ended;
///  - data that move during an op take a share of its speed (PricedMessage.slowdown), or a message
///    holds multiprocessors from its start to its end (PricedMessage.blocks, hardware/op_time.h);
///    ops bound by memory feel that only while data move.
/// On a CPU (MPI) the host computes and moves data itself: a message moves while its receiver waits
/// for it, after all ranks have issued it. Ranks that compute or move data share the cores evenly,
/// at most one core each; with more ranks than cores, a waiting rank's share goes to the others.
///
/// If stages wait for each other forever, throws an Error (bug) that names them. With `tracks`,
/// adds those of the step that counts.
StepTime time_step(const PipelineTraces& pipeline, const HardwareProfile& hardware,
                   Tracks* tracks = nullptr);

}  // namespace gptrain
