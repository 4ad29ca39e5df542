// Allocation, copies, constant values and casts.
#pragma once

#include "tensor/tensor.h"

namespace gptrain::cpu {

/// Pages of the process, present and zero, spread over the threads that first touched them; huge
/// where the system allows it. Null for 0 bytes. Not enough memory: Error (usage).
std::byte* allocate_pages(std::int64_t bytes);
void release_pages(std::byte* data, std::int64_t bytes) noexcept;

void copy(const Tensor& to, const Tensor& from);
void fill(const Tensor& x, float value);
void cast(const Tensor& to, const Tensor& from);
void sum_rows(const Tensor& to, const Tensor& rows);

}  // namespace gptrain::cpu
