// The work of an op: what a time model prices (hardware/op_time.h).
#pragma once

#include "backend/op_tensors.h"
#include "backend/ops.h"
#include "hardware/op_time.h"

namespace gptrain {

OpWork work_of(const LinearForward& op);
OpWork work_of(const Int8LinearForward& op);
OpWork work_of(const Nf4LinearForward& op);
OpWork work_of(const LinearInputGrad& op);
OpWork work_of(const LinearWeightGrad& op);
// Grouped ops as if each expert had an equal share of the `expected` rows.
OpWork work_of(const GroupedForward& op);
OpWork work_of(const GroupedInputGrad& op);
OpWork work_of(const GroupedWeightGrad& op);
/// The matrices of as many experts as can have rows.
OpWork work_of(const GroupedFromInt8& op);
OpWork work_of(const GroupedFromNf4& op);
/// Two GEMMs: scores and output. FLOPs count visible query-key pairs only.
OpWork work_of(const AttentionForward& op);
/// Five GEMMs: scores again, dP, dQ, dK, dV.
OpWork work_of(const AttentionBackward& op);
OpWork work_of(const AdamW& op);
/// Any other op is bound by memory.
template <class Op>
OpWork work_of(const Op& op) {
    OpWork work;
    work.name = Op::name;
    work.bytes = memory_traffic(op);
    return work;
}

}  // namespace gptrain
