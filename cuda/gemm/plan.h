// How a GEMM is computed: a list of parts, which one loop runs in turn (gemms.cpp).
//
// plan_of decides everything but the outcome of timing, which it asks for: which sizes are divided,
// which epilogues the library fuses, and which of our kernels do the rest. Another way to compute a
// GEMM is another kind of part.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/scratch.h"
#include "cuda/gemm/gemm.h"
#include "cuda/gemm/grouped_gemm.h"

namespace gptrain::cuda {

/// The library's word for one of its ways to compute a GEMM (cublasLtMatmulAlgo_t).
using Algorithm = std::array<std::uint64_t, 8>;

/// How our kernel for sm_90a computes a GEMM.
struct Sm90Choice {
    std::int64_t parts = 0;  ///< of the summed dim; 0: not by this kernel
    bool sums_rows = false;  ///< it computes a_sums too, instead of another kernel
};

/// The outcome of timing for a GEMM: an entry of the tuning table.
struct GemmChoice {
    std::optional<Algorithm> algorithm = {};  ///< none: the first that the library accepts
    bool separate = false;                    ///< not in one call, if it is separable
    Sm90Choice sm90 = {};
};

/// The text form of a choice that has an algorithm, is `separate` or has sm90.parts, and its
/// inverse; an empty choice if `word` is not a valid form.
std::string to_text(const GemmChoice& choice);
GemmChoice choice_of(std::string_view word);

/// The tuning table's key of grouped GEMMs: everything that a choice depends on. A choice is
/// sm90.parts = 1, or `separate` for the other kernel.
std::string key_of(const GroupedGemm& gemm);

struct GemmPart {
    enum class Kind {
        library,     ///< computes `gemm` in one call; the sums of a's rows go to a_sums alone
        sm90,        ///< computes `gemm` in our kernel for sm_90a, with a_totals if it has them
        epilogue,    ///< c = round((sums + bias) gelu'(gelu_input)), or c = round(c + sums)
        gelu,        ///< gelu = gelu(c)
        swiglu,      ///< swiglu = swiglu(c), or swiglu_grad from c
        row_sums,    ///< a_totals += the sum of each row of a
        add_sums,    ///< a_totals += a_sums
        plain_rows,  ///< the rows of c that tuning compares, where there is no other way
    };

    Kind kind = Kind::library;
    Gemm gemm;
    Matrix sums = {};                         ///< epilogue: fp32 a b [M, N]; may be c itself
    std::optional<Algorithm> algorithm = {};  ///< library: the one to try first
    std::int64_t sm90_parts = 0;              ///< sm90: of the summed dim
};

using GemmPlan = std::vector<GemmPart>;

/// The rules and resources that a plan depends on, in addition to the GEMM.
struct GemmRules {
    int device_major = 0;       ///< of the compute capability
    bool deterministic = true;  ///< recomputation in backward gives the same bits as forward
    Scratch scratch = {};       ///< has room for linear_sums_bytes, or for all of c in fp32
    /// The choice for a GEMM that one call of the library could compute.
    std::function<GemmChoice(const Gemm& gemm)> choose;
    /// GemmChoice::sm90 for a GEMM with its whole epilogue, which our kernel for sm_90a covers if
    /// it has parts. Not set: none has.
    std::function<Sm90Choice(const Gemm& gemm)> sm90 = {};
};

/// True if the GEMM has a plan other than one call of the library, which GemmChoice::separate
/// selects: it has an epilogue, adds to 16 bits, or its sum is divided.
bool is_separable(const Gemm& gemm);

/// The part of the GEMM that the kernel for sm_90a computes: without a_sums if another kernel has
/// them.
Gemm sm90_part_of(const Gemm& gemm, const Sm90Choice& choice);

/// Bytes of fp32 sums that wait for their epilogue at a time: they fit in the L2 cache of a large
/// GPU.
constexpr std::int64_t linear_sums_bytes = std::int64_t{32} << 20;

/// The same arguments and choices give the same plan. A different choice for one part does not
/// change the parts before it.
GemmPlan plan_of(const Gemm& gemm, const GemmRules& rules);

}  // namespace gptrain::cuda
