// Allocation and copies.
#pragma once

#include "tensor/tensor.h"

namespace gptrain::cpu {

/// Zeroed and resident pages, first touched by all threads in parallel, huge if the system allows
/// it. Null for 0 bytes. Too little memory is an Error (usage).
std::byte* allocate_pages(std::int64_t bytes);
void release_pages(std::byte* data, std::int64_t bytes) noexcept;

void copy(const Tensor& to, const Tensor& from);

}  // namespace gptrain::cpu
