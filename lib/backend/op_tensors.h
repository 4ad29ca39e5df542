// Which tensors an op uses, and how.
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace gptrain {

enum class Access {
    read,
    write,   ///< `=`
    update,  ///< `+=`, or in place
};

/// The argument of an op's `tensors`: passes each tensor that is not empty to f(tensor, access).
template <class F>
class TensorList {
public:
    explicit TensorList(const F& f) : f_(f) {}

    const TensorList& reads(const auto&... tensors) const { return all(Access::read, tensors...); }
    const TensorList& writes(const auto&... tensors) const {
        return all(Access::write, tensors...);
    }
    const TensorList& updates(const auto&... tensors) const {
        return all(Access::update, tensors...);
    }

private:
    const TensorList& all(Access access, const auto&... tensors) const {
        (pass(tensors, access), ...);
        return *this;
    }
    void pass(const Tensor& tensor, Access access) const {
        if (!tensor.empty()) f_(tensor, access);
    }
    void pass(std::span<const Tensor> tensors, Access access) const {
        for (const Tensor& tensor : tensors)
            pass(tensor, access);
    }

    const F& f_;
};

/// Calls f(tensor, access) for each tensor of an op that is not empty. The step state, which is
/// small, is left out. A table whose rows are named by ids is listed with only as many rows as
/// there are ids.
template <class Op, class F>
void visit_tensors(const Op& op, const F& f) {
    op.tensors(TensorList<F>(f));
}

/// Bytes of the tensors that an op reads and writes; updated ones count twice.
double memory_traffic(const auto& op) {
    double bytes = 0;
    visit_tensors(op, [&](const Tensor& tensor, Access access) {
        bytes += static_cast<double>(tensor.bytes()) * (access == Access::update ? 2 : 1);
    });
    return bytes;
}

}  // namespace gptrain
