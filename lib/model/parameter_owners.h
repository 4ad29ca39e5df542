// Who updates the parameters of buckets whose parameters have one owner each (Bucket::whole).
#pragma once

#include "comm/mesh.h"
#include "model/layout.h"

namespace gptrain {

/// Greedy: assigns the largest share first, always to the owner with the fewest elements. Sizes,
/// and so owners, are the same on all ranks of tp.
void assign_owners(ParameterLayout& layout, const MeshShape& mesh);

}  // namespace gptrain
