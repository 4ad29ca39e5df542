// Times read off measurements of the machine itself (gptrain plan --calibrate).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "hardware/op_work.h"
#include "hardware/profile.h"

namespace gptrain {

/// The precision under which ops with operands of this type are measured.
Precision precision_of(DType dtype);

/// Seconds of an op that has `cores` cores, or nothing if no op of its name and precision was
/// measured.
///
/// Its rate (FLOP/s, or bytes/s of an op without FLOPs) is the mean of all measured rates on the
/// logarithmic scale, weighted by 1 / distance^4, where the distance is that of the logarithms of
/// the sizes: a measured op has its own rate, one between two sizes a rate between theirs. Ranks
/// have one thread for each whole core; below one core they take turns.
std::optional<double> measured_op_seconds(const std::vector<MeasuredOp>& measured, const OpWork& op,
                                          double cores);

/// Seconds of an operation among `ranks` ranks in which each sends `sent` bytes, or nothing if it
/// was not measured: its messages one after the other, each interpolated between the measured
/// sizes on logarithmic scales. A "send" takes what a "recv" takes.
std::optional<double> measured_message_seconds(const std::vector<MeasuredMessage>& measured,
                                               std::string_view operation, std::int64_t ranks,
                                               double sent);

/// The messages that a rank sends in an operation.
double messages_of(std::string_view operation, std::int64_t ranks);

}  // namespace gptrain
