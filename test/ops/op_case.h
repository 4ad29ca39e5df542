// One case of one op: its operands, the call, and the reference. The same case is compared with the
// reference on every backend, and timed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "array.h"
#include "backend/backend.h"
#include "host_tensor.h"

namespace gptrain {

enum class Role {
    input,    ///< must be unchanged afterwards
    output,   ///< holds NaN before
    updated,  ///< holds values before, others afterwards
};

/// Identifies an operand of a case.
using Operand = int;
constexpr Operand none = -1;

/// A view of part of a storage; the same on host and backend.
using View = std::function<Tensor(const Tensor&)>;

/// The operands of a case in backend memory.
struct Tensors {
    std::vector<Tensor> views;
    StepRef step;
    Tensor operator[](Operand operand) const {
        return operand == none ? Tensor() : views[static_cast<std::size_t>(operand)];
    }
};

/// The operands as the reference sees them. Inputs and updated operands hold their exact values;
/// the reference overwrites outputs and updated ones.
struct Arrays {
    std::vector<Array> arrays;
    std::vector<Array> results;  ///< what the op has produced, exact
    Array absent;
    Array& operator[](Operand operand) {
        return operand == none ? absent : arrays[static_cast<std::size_t>(operand)];
    }
    /// For a result that is a function of this one as stored.
    const Array& result(Operand operand) const {
        return results[static_cast<std::size_t>(operand)];
    }
};

/// Sets the compute dtype and the sizes that `scratch` must suffice for.
class OpCase {
public:
    OpCase(std::string case_name, const OpLimits& op_limits)
        : name(std::move(case_name)), limits(op_limits) {}

    /// Contiguous, or for rank 2 with a gap of `gap` elements between rows.
    Operand input(DType dtype, const Shape& shape, const Values& values, std::int64_t gap = 0) {
        return own(Role::input, dtype, shape, values, gap);
    }
    Operand output(DType dtype, const Shape& shape, std::int64_t gap = 0) {
        return own(Role::output, dtype, shape, Values(), gap);
    }
    Operand updated(DType dtype, const Shape& shape, const Values& values, std::int64_t gap = 0) {
        return own(Role::updated, dtype, shape, values, gap);
    }

    /// Memory that several operands share; elements that belong to none of them must not change.
    std::size_t storage(DType dtype, const Shape& shape);
    Operand part(Role role, std::size_t storage, View view, const Values& values = Values());

    std::string name;
    OpLimits limits;
    StepState state = initial_step_state(1);
    std::vector<std::int64_t> first_sequences = {0};
    std::int64_t slot = 0;
    std::function<void(Backend&, const Tensors&)> run;
    std::function<void(Arrays&)> reference;
    double flops = 0;    ///< of timed ones that are compute-bound
    bool large = false;  ///< only timed; too large for the reference

private:
    friend class OpRun;
    struct Storage {
        DType dtype;
        Shape shape;
    };
    struct Part {
        Role role;
        std::size_t storage;
        View view;
        Values values;
    };
    Operand own(Role role, DType dtype, const Shape& shape, const Values& values, std::int64_t gap);

    std::vector<Storage> storages_;
    std::vector<Part> parts_;
};

/// Scratch memory of a backend for one case after the other: NaN at first, then whatever the
/// previous case left.
class ScratchMemory {
public:
    explicit ScratchMemory(Backend& backend) : backend_(backend) {}
    /// Takes that many bytes, followed by guard bytes that must not change.
    Tensor take(std::int64_t bytes);
    /// True if the guard bytes are unchanged since the last `take`.
    bool end_is_intact() const;

private:
    Backend& backend_;
    std::optional<DeviceTensor> memory_;
    Tensor behind_;
};

/// A tensor that an op declares (backend/op_tensors.h).
struct ListedTensor {
    Tensor tensor;
    Access access;
};

/// A case on a backend, in separate memory. The scratch memory has exactly the size that the
/// backend requests.
class OpRun {
public:
    OpRun(Backend& backend, const OpCase& op, ScratchMemory& scratch);

    void run() { op_.run(backend_, tensors_); }
    /// Compares the memory after one run with the reference. Empty if all is correct, else one line
    /// per faulty operand.
    std::string faults() const;
    /// Compares the tensors that the case's ops declare with the roles of its operands. Empty if
    /// all is correct, else one line per faulty operand.
    std::string listing_faults(const std::vector<ListedTensor>& listed) const;
    /// All storages and the step state as they are now.
    std::vector<HostTensor> memory() const;
    /// Bytes of all operands, updated ones counted twice.
    std::int64_t bytes_moved() const;

private:
    Tensor host_view(std::size_t part, const std::vector<HostTensor>& memory) const;
    std::string scratch_faults() const;
    std::string state_faults() const;
    std::string outside_faults(const std::vector<HostTensor>& after) const;

    Backend& backend_;
    const OpCase& op_;
    std::vector<HostTensor> before_;
    std::vector<DeviceTensor> storages_;
    DeviceTensor state_;
    DeviceTensor first_sequences_;
    ScratchMemory& scratch_;
    Tensors tensors_;
};

/// Step state as bytes and back.
HostTensor to_host(const StepState& state);
StepState to_step_state(const HostTensor& bytes);

}  // namespace gptrain
