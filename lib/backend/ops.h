// The ops of a backend. An op is the struct of its arguments; its comment is its contract. Adding
// an op takes the struct, its place in the list below, a kernel in lib/cpu and one in cuda/, and a
// case in test/ops.
//
// Shape letters: B sequences of a microbatch, S local sequence length, T = B S tokens, H hidden
// size, N local heads, G local query groups, D head dim, F local feed-forward size, V local
// vocabulary, I inputs and O outputs of a linear layer, C rows of a chunk of logits, E experts, K
// experts of a token, R rows of experts.
//
// "Compute dtype" is fp32, bf16 or fp16, the same for all activations and weights of a call.
// Parameter gradients are fp32. Accumulation is in fp32 or better. `=` overwrites, `+=`
// accumulates. An empty tensor means "none". "rows" marks a tensor of rank 2 with contiguous rows
// and any row stride. All others are contiguous, unless strides are mentioned.
#pragma once

#include "backend/attention_ops.h"
#include "backend/expert_ops.h"
#include "backend/model_ops.h"
#include "backend/muon_ops.h"
#include "backend/nf4_ops.h"
#include "backend/norm_ops.h"
#include "backend/op_list.h"
#include "backend/op_tensors.h"
#include "backend/step_ops.h"
#include "backend/value_ops.h"

namespace gptrain {

/// Each op has a `name` and lists its tensors (op_tensors.h).
using Ops = OpList<
    // values
    Fill, Cast, Add, SumRows, InitNormal, UpdateAmax, ToFp8, ToFp8Rows, ToFp8Columns, ToFp8Blocks,
    TransposeFp8, ToInt8, FromInt8, FromNf4, Checksum,
    // linear layers
    LinearForward, Int8LinearForward, Nf4LinearForward, LinearInputGrad, LinearWeightGrad, BiasGrad,
    AddBias,
    // the rest of the model
    ResidualAdd, ResidualNormForward, ResidualNormBackward, ApplyDropout, HeadNormForward,
    HeadNormBackward, RowDots, RowNormForward, RowNormBackward, ActivationForward,
    ActivationBackward, EmbeddingForward, EmbeddingBackward, PositionForward, PositionBackward,
    Rope, AttentionForward, AttentionBackward, MergeAttention, SinkForward, SinkBackward, SoftCap,
    CrossEntropy, VocabParallelMaximum, VocabParallelSums, VocabParallelGradient,
    // experts
    RouterForward, RouterBackward, BalanceSums, BalanceLoss, RouterZLoss, MeasureRouter,
    MeasureLoads, UpdateBalance, GroupByExpert, PlaceRows, GatherRows, CombineRows, WeightRows,
    GateRows, GateRowsBackward, GroupedForward, GroupedInputGrad, GroupedWeightGrad,
    GroupedBiasGrad, GroupedFromInt8, GroupedFromNf4,
    // step and optimizer
    BeginStep, CheckLoss, Clear, SquareSum, DecideStep, FindNotFinite, AdamW, MuonMomentum,
    Normalise, Combine, MuonUpdate>;

}  // namespace gptrain
