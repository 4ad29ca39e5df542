// GEMMs by cuBLASLt, which only gemms.cpp and lt_gemm.cpp use, or by our own kernel. The emulator
// has twins of these files that compute on the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "cuda/gemm/grouped_gemm.h"
#include "cuda/gemm/plan.h"
#include "cuda/runtime/context.h"

namespace gptrain::cuda {

class TuningTable;

/// Runs a part of a plan with one of our kernels.
using PartKernel = void(const GemmPart& part, const OpContext& context);

/// The kernels that compute grouped GEMMs: one on all devices, and ours for sm_90a.
struct GroupedKernels {
    void (*anywhere)(const GroupedGemm& gemm, const OpContext& context);
    void (*sm90)(const GroupedGemm& gemm, const OpContext& context);
};

/// Sums are in fp32 (except with `fast_accumulation`), and fp32 operands keep full precision (never
/// TF32). How a GEMM is computed, and whether its epilogue is separate, depends only on its sizes,
/// strides, dtypes and epilogue, the alignment of its rows (a power of two, at most 16 bytes), the
/// device, the library and the tuning table. So calls that agree in these give the same bits.
class Gemms {
public:
    /// Opens the library; throws Error (usage) if that fails. Opens the table and takes algorithms
    /// from it; the table must outlive this object. GEMMs without an entry, or all if the table is
    /// null, use the library's first choice with a fused epilogue. `tunes_sm90`: tuning also tries
    /// our kernel for sm_90a on a device of compute capability 9.0; entries that name it are used
    /// anyway.
    Gemms(const DeviceProperties& device, TuningTable* tuning, bool tunes_sm90 = false);
    ~Gemms();

    /// Runs `work`. For each GEMM in it that the table lacks, times several algorithms, and the
    /// plan with a separate epilogue where there is one; records the fastest choice, then saves the
    /// table. Afterwards c is undefined: sums may have been added several times or not at all.
    void tune(const std::function<void()>& work);
    /// From now on uses this table (see TuningTable::replace).
    bool use_table(std::string_view table);

    /// Runs the parts of the GEMM's plan: `kernel` those that are not the library's. In FP8, M, N
    /// and K must be multiples of 16, all rows aligned to 16 bytes, and the device of compute
    /// capability 8.9 or newer; otherwise throws Error (usage). Takes `workspace_bytes` of the
    /// context's scratch memory, and for sums as much as the plan needs.
    void run(const Gemm& gemm, PartKernel* kernel, const OpContext& context);

    /// Runs grouped GEMMs with the kernel that the table names, without an entry the one for all
    /// devices. Tuning tries the one for sm_90a as it does for other GEMMs.
    void run(const GroupedGemm& gemm, const GroupedKernels& kernels, const OpContext& context);

    static constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;

private:
    class Library;
    std::unique_ptr<Library> library_;
};

}  // namespace gptrain::cuda
